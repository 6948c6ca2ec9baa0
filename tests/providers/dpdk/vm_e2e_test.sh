#!/usr/bin/env bash
# A driver of a real network card (e1000), behind an IOMMU, in a virtual machine: the contract suite of
# providers of packets, and two processes with every byte verified.
# usage: vm_e2e_test.sh PATH_OF_SPINDRIFT PATH_OF_CONTRACT_TEST PATH_OF_QUEUES_TEST
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --inside ]; then
  "$here/../../vm/run_in_vm.sh" --timeout 800 "$0" --inside "$@"
  status=$?
  if [ $status = 125 ]; then
    echo "NOT TESTED: the driver of a network card needs a virtual machine, and there is none" >&2
    exit 77
  fi
  exit $status
fi

tool=$2
contract=$3
queues=$4
failures=0
out=$(mktemp -d)
fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# Once with payload copied, once with payload that the card reads where it lies.
for payload in e1000 e1000_in_place; do
  "$contract" --gtest_filter="*/${payload}_ipv?" >"$out/contract" 2>&1 ||
    fail "the contract of providers, $payload: $(tail -n 40 "$out/contract")"
  grep PASSED "$out/contract"
done
# Rules that bring packets to queues: the stock kernel's tap has them.
"$queues" --gtest_filter='DpdkSteering.*' >"$out/queues" 2>&1 ||
  fail "rules for queues: $(tail -n 40 "$out/queues")"
grep SKIPPED "$out/queues" && fail "rules for queues: $(grep 'NOT TESTED' "$out/queues")"
grep PASSED "$out/queues"

# run OPTIONS [ARGUMENTS]: a server at one port, a client at the other.
run() {
  local options=$1
  shift
  SPINDRIFT_HOST_ID=near timeout 200 "$tool" perf server --once \
    --listen "dpdk://${VM_PORTS%,*}?ip=10.0.0.1/24$options" >"$out/server" 2>&1 &
  local server=$!
  for _ in $(seq 400); do
    grep listening "$out/server" >/dev/null 2>&1 && break
    sleep 0.05
  done
  SPINDRIFT_HOST_ID=far timeout 190 "$tool" perf dpdk://10.0.0.1 \
    --device "dpdk://${VM_PORTS#*,}?ip=10.0.0.2/24$options" "$@" >"$out/client" 2>&1 || {
    fail "$*: $(tail -n 3 "$out/client") server: $(tail -n 2 "$out/server")"
    kill $server
  }
  wait $server || fail "the server of $*: $(tail -n 2 "$out/server")"
  grep -A1 '#bytes' "$out/client" | tail -n 1
}

run "" --op write --size 64K -n 100 --warmup 0 --verify
run "&mtu=9000" --op read --size 100000 -n 50 --warmup 0 --verify
run "&vlan=100" --op send --size 64 -n 300 --warmup 0 --verify
run "" --op send --size 8 --test lat -n 30
run "&payload=in_place" --op write --size 64K -n 100 --warmup 0 --verify
grep 'tx_in_place' "$out/client" || fail "no payload was sent from where it lies"
exit $((failures > 0))
