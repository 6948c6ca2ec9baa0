#!/usr/bin/env bash
# RDMA devices of the kernel's (soft-RoCE) in a virtual machine. suites: the contract suite of providers
# of packets over datagrams, and queue pairs that fail and come back. programs: whole programs through
# the module, with every byte verified.
# usage: vm_e2e_test.sh suites FOLDER_OF_TESTS, or vm_e2e_test.sh programs PATH_OF_SPINDRIFT
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
  "$here/../../vm/run_in_vm.sh" --with rdma --timeout 540 "$0" --inside "$@"
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

if [ "$part" = suites ]; then
  for suite in verbs_provider_contract_test verbs_fabric_test; do
    "$3/$suite" >"$out/suite" 2>&1 ||
      fail "$suite: $(grep -E -A6 'Failure|FAILED' "$out/suite" | tail -n 60)"
    grep PASSED "$out/suite"
  done
  exit $((failures > 0))
fi

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
run "?lanes=4" --op write --size 64K -n 30 --warmup 0 --verify
run "" --op read --size 100000 -n 20 --warmup 0 --verify
run "" --op send --size 64 -n 200 --warmup 0 --verify
SPINDRIFT_PATH_COUNT=1 run "?transport=ud" --op write --size 64K -n 10 --warmup 0 --verify --paths 1

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
