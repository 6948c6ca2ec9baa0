#!/usr/bin/env bash
# libfabric's verbs and verbs;ofi_rxm over RDMA devices of the kernel's (soft-RoCE) in a virtual machine:
# the contract suite of fabrics.
# usage: vm_e2e_test.sh PATH_OF_CONTRACT_TEST
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
exit $((failures > 0))
