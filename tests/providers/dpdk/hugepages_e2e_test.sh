#!/usr/bin/env bash
# The contract suite of providers over memif with DPDK's memory in hugepages, which are asked of the
# kernel for as long as this runs. usage: hugepages_e2e_test.sh PATH_OF_CONTRACT_TEST
set -u
contract=$1
pages=128 # of 2 MiB: what DPDK takes at its start
pool=/sys/kernel/mm/hugepages/hugepages-2048kB
out=$(mktemp -d)
before=$(cat $pool/nr_hugepages 2>/dev/null || echo none)
clean_up() {
  rm -rf "$out"
  [ "$before" = none ] || echo "$before" >$pool/nr_hugepages
} 2>/dev/null
trap clean_up EXIT

free() { cat $pool/free_hugepages 2>/dev/null || echo 0; }
if [ "$(free)" -lt $pages ]; then
  { echo $((before + pages)) >$pool/nr_hugepages; } 2>/dev/null
fi
if [ "$(free)" -lt $pages ]; then
  echo "NOT TESTED: this kernel grants no $pages hugepages of 2 MiB (root may ask for them)" >&2
  exit 77
fi

least=$(free)
unset SPINDRIFT_DPDK_EAL
"$contract" --gtest_filter='*/memif_ipv4' >"$out/log" 2>&1 &
suite=$!
while kill -0 $suite 2>/dev/null; do
  now=$(free)
  [ "$now" -lt "$least" ] && least=$now
  sleep 0.05
done
wait $suite || {
  echo "FAILED: $(tail -n 20 "$out/log")" >&2
  exit 1
}
grep PASSED "$out/log"
if [ "$least" -ge "$(free)" ]; then
  echo "FAILED: $(free) hugepages were free, and none was used" >&2
  exit 1
fi
