#!/usr/bin/env bash
# RDMA devices of the kernel's (soft-RoCE) in a virtual machine. suites: the contract suites of providers
# of packets and of fabrics, and queue pairs that fail and come back. endpoints: the contract suite of
# endpoints, through the module. programs: whole programs, with every byte verified.
# usage: vm_e2e_test.sh suites FOLDER_OF_TESTS, vm_e2e_test.sh endpoints FOLDER_OF_TESTS
#   FOLDER_OF_MODULES, or vm_e2e_test.sh programs PATH_OF_SPINDRIFT
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
  "$here/../../vm/run_in_vm.sh" --with rdma --timeout 840 "$0" --inside "$@"
  status=$?
  if [ $status = 125 ]; then
    echo "NOT TESTED: RDMA devices need a virtual machine, and there is none" >&2
    exit 77
  fi
  exit $status
fi

part=$2
failures=0
out=$(mktemp -d)
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# run_suites FOLDER SUITE...: programs of Google Test.
run_suites() {
  local folder=$1 suite
  shift
  for suite in "$@"; do
    "$folder/$suite" >"$out/suite" 2>&1 ||
      fail "$suite: $(grep -E -A6 'Failure|FAILED' "$out/suite" | tail -n 60)"
    grep -E 'PASSED|tests? ran' "$out/suite"
  done
}
case $part in
suites)
  run_suites "$3" verbs_provider_contract_test verbs_fabric_contract_test verbs_fabric_test
  exit $((failures > 0))
  ;;
endpoints)
  # Left out over rc: it counts resident memory at one moment, and what connections that are ending
  # have registered counts, too.
  GTEST_FILTER='-*ManyConnectionsOneAfterAnother*/verbs_rc' SPINDRIFT_MODULES=$4 \
    run_suites "$3" verbs_endpoint_contract_test
  exit $((failures > 0))
  ;;
esac

tool=$3
await() { # FILE WORD
  for _ in $(seq 600); do
    grep "$2" "$1" >/dev/null 2>&1 && return
    sleep 0.1
  done
}

# run OPTIONS [ARGUMENTS]: a server at one device, a client at the other.
run() {
  local options=$1
  shift
  SPINDRIFT_HOST_ID=near timeout 100 "$tool" perf server --once --listen "verbs://rxe0$options" \
    >"$out/server" 2>&1 &
  local server=$!
  await "$out/server" listening
  SPINDRIFT_HOST_ID=far timeout 90 "$tool" perf verbs://10.77.0.1 --device "verbs://rxe1$options" \
    "$@" >"$out/client" 2>&1 || {
    fail "$options $*: $(tail -n 4 "$out/client") server: $(tail -n 3 "$out/server")"
    kill $server
  }
  wait $server || fail "the server of $options $*: $(tail -n 3 "$out/server")"
  grep -A1 '#bytes' "$out/client" | tail -n 1
}

"$tool" info >"$out/info" 2>&1 || fail "info: $(tail -n 3 "$out/info")"
grep -q 'verbs *ready' "$out/info" || fail "info finds no devices: $(grep -A1 verbs "$out/info")"
# says DEVICE-OR-EMPTY PATTERN
says() {
  "$tool" info ${1:+"$1"} >"$out/info" 2>&1 || fail "info $1: $(tail -n 3 "$out/info")"
  grep -q -E "$2" "$out/info" || fail "info $1 does not say '$2': $(grep -A20 rxe0 "$out/info")"
}
says "" 'rxe1 port 1'
says verbs://rxe0 'state +active'
says verbs://rxe0 'link +Ethernet \(RoCE\)'
says verbs://rxe0 'MTU +4096 bytes'
says verbs://rxe0 'chosen +GID 1 \(RoCE v2, 10.77.0.1, veth0\), score 63 of 63'
says verbs://rxe0 'also there +GID 0 .*link-local'
says 'verbs://rxe0?lanes=4' 'paths, rc +4: each lane'
says 'verbs://rxe0?transport=ud' '^  paths +1$'
run "?lanes=4" --op write --size 64K -n 30 --warmup 0 --verify
run "" --op read --size 100000 -n 20 --warmup 0 --verify
run "" --op send --size 64 -n 200 --warmup 0 --verify
run "?transport=ud" --op write --size 64K -n 10 --warmup 0 --verify
run "?transport=uc&lanes=4" --op write --size 64K -n 10 --warmup 0 --verify

# Four ranks, two at each device.
ranks=()
for rank in 0 1 2 3; do
  SPINDRIFT_HOST_ID=rank$rank timeout 150 "$tool" coll allreduce --rank $rank --ranks 4 \
    --rendezvous 127.0.0.1:21234 -b 1K -e 64K -f 8 -n 2 -w 1 -c 1 \
    --address "verbs://rxe$((rank % 2))?lanes=2&timeout=18" >"$out/rank$rank" 2>&1 &
  ranks+=($!)
done
for rank in 0 1 2 3; do
  wait "${ranks[rank]}" || fail "all-reduce, rank $rank: $(tail -n 3 "$out/rank$rank")"
done

# What a process may lock is too little, and it says so.
chmod 666 /dev/infiniband/uverbs*
setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --memlock=65536 \
  "$tool" perf server --once --listen verbs://rxe0 >"$out/locked" 2>&1 &
server=$!
await "$out/locked" listening
SPINDRIFT_HOST_ID=far timeout 60 "$tool" perf verbs://10.77.0.1 --device verbs://rxe1 --op send \
  --size 64 -n 10 >"$out/client" 2>&1 && fail "a process that may lock 64 KiB registers more"
await "$out/locked" 'ulimit -l'
grep -q 'may lock 65536 bytes in all (ulimit -l)' "$out/locked" ||
  fail "memory that may be locked: $(tail -n 2 "$out/locked")"
kill $server 2>/dev/null
wait $server 2>/dev/null
exit $((failures > 0))
