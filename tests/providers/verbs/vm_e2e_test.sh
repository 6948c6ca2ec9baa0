#!/usr/bin/env bash
# RDMA devices of the kernel's (soft-RoCE) in a virtual machine: the contract suite of providers of
# packets over datagrams, and queue pairs that fail and come back.
# usage: vm_e2e_test.sh FOLDER_OF_TESTS
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

failures=0
for suite in verbs_provider_contract_test verbs_fabric_test; do
  out=$(mktemp)
  "$2/$suite" >"$out" 2>&1 || {
    echo "FAILED: $suite: $(grep -E -A6 'Failure|FAILED' "$out" | tail -n 60)" >&2
    failures=$((failures + 1))
  }
  grep PASSED "$out"
done
exit $((failures > 0))
