#!/usr/bin/env bash
# nccl_net_check over RDMA devices of the kernel's (soft-RoCE) in a virtual machine: every version of the
# interface, the ranks at the two ends of a cable in turn, and both devices merged into one.
# usage: vm_e2e_test.sh NCCL_NET_CHECK PLUGIN FOLDER_OF_MODULES
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
  "$here/../vm/run_in_vm.sh" --with rdma --timeout 2400 "$0" --inside "$@"
  status=$?
  if [ $status = 125 ]; then
    echo "NOT TESTED: RDMA devices need a virtual machine, and there is none" >&2
    exit 77
  fi
  exit $status
fi

plugin=$3
export SPINDRIFT_MODULES=$4
check=("$2" --plugin "$plugin" --timeout 200 --env SPINDRIFT_NCCL_SHM=0)
cable=()
for rank in 0 1 2 3; do cable+=(--rank-env "$rank:SPINDRIFT_NCCL_IFNAME=rxe$((rank % 2))"); done
failures=0

# By the version that NCCL 2.28 takes everything but what makes dozens of connections, which takes minutes in
# emulation; then what differs between versions.
"${check[@]}" "${cable[@]}" --versions 11 \
  --case loading,connect_self,connect_early,accept_nobody,strangers,slow_connect,transfers,patterns \
  --case abort,killed,stopped,close_stopped || failures=$((failures + 1))
"${check[@]}" "${cable[@]}" --versions 12,10,9,8,7,6 --case reload,sizes,grouped,ring,killed ||
  failures=$((failures + 1))

# Without filters both devices are there, and become one; each carries some of the bytes.
said=$("${check[@]}" --versions 12 --case properties,merged --verbose 2>&1) || {
  echo "FAILED: $said"
  failures=$((failures + 1))
}
echo "$said" | grep -E '^  (ok|FAILED)'
echo "$said" | grep -q 'stripes over rxe0+rxe1' || {
  echo "FAILED: nothing was merged: $said"
  failures=$((failures + 1))
}
exit $((failures > 0))
