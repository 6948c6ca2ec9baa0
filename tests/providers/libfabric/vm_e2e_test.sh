#!/usr/bin/env bash
# libfabric's verbs and verbs;ofi_rxm over RDMA devices of the kernel's (soft-RoCE) in a virtual machine:
# the contract suite of fabrics, and the tools with every byte verified.
# usage: vm_e2e_test.sh PATH_OF_CONTRACT_TEST PATH_OF_SPINDRIFT FOLDER_OF_MODULES
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

suite=$2
tool=$3
export SPINDRIFT_MODULES=$4
# Each endpoint of ofi_rxm prepares for so many peers; for more it takes more memory than there is here.
export FI_UNIVERSE_SIZE=4
failures=0
out=$(mktemp -d)
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}
"$suite" --gtest_filter='*/verbs*' >"$out/suite" 2>&1 ||
  fail "the suite of fabrics: $(grep -E -A6 'Failure|FAILED' "$out/suite" | tail -n 60)"
grep -E 'PASSED|tests? ran' "$out/suite"

# run PROVIDER [ARGUMENTS]: a server at one device, a client at the other.
run() {
  local provider=$1 server
  shift
  SPINDRIFT_HOST_ID=near timeout 100 "$tool" perf server --once --listen "ofi://$provider@10.77.0.1:4793" \
    >"$out/server" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    grep listening "$out/server" >/dev/null 2>&1 && break
    sleep 0.1
  done
  SPINDRIFT_HOST_ID=far timeout 90 "$tool" perf "ofi://$provider@10.77.0.1:4793" --device \
    "ofi://$provider@10.77.0.2:0" "$@" >"$out/client" 2>&1 || {
    fail "$provider $*: $(tail -n 4 "$out/client") server: $(tail -n 3 "$out/server")"
    kill $server
  }
  wait $server || fail "the server of $provider $*: $(tail -n 3 "$out/server")"
  grep -A1 '#bytes' "$out/client" | tail -n 1
}
for provider in verbs 'verbs;ofi_rxm'; do
  run "$provider" --op write --size 100K -n 10 --warmup 0 --verify
  run "$provider" --op read --size 64K -n 10 --warmup 0 --verify
  run "$provider" --op send --size 64 -n 50 --warmup 0 --verify
done
exit $((failures > 0))
