#!/usr/bin/env bash
# Two hosts (network namespaces joined by a veth pair), MTU 1500 and 9000: every operation verified,
# the negotiated payload MTU, IPv6, two rails, losses, a killed server, an all-reduce between hosts.
# usage: veth_e2e_test.sh PATH_OF_SPINDRIFT
set -u
tool=$1
left=sda$$
right=sdb$$
out=$(mktemp -d)
failures=0

if [ "$(id -u)" != 0 ] || ! ip netns add "$left" 2>/dev/null; then
  echo "NOT TESTED: network namespaces need root; run this test as root" >&2
  exit 77
fi

clean_up() {
  for ns in "$left" "$right"; do
    ip netns pids "$ns" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "$ns" 2>/dev/null
  done
  rm -rf "$out"
}
trap clean_up EXIT
ip netns add "$right"

# Pair k: 10.k.0.1 -- 10.k.0.2 and fdk::1 -- fdk::2.
for k in 1 2; do
  ip link add "v${k}a$$" type veth peer name "v${k}b$$"
  ip link set "v${k}a$$" netns "$left" name "rail$k"
  ip link set "v${k}b$$" netns "$right" name "rail$k"
  for side in 1 2; do
    ns=$left
    [ $side = 2 ] && ns=$right
    ip -n "$ns" addr add "10.$k.0.$side/24" dev "rail$k"
    ip -n "$ns" addr add "fd0$k::$side/64" dev "rail$k" nodad
    ip -n "$ns" link set "rail$k" up
    ip -n "$ns" link set lo up
  done
done

set_mtu() {
  for k in 1 2; do
    for ns in "$left" "$right"; do ip -n "$ns" link set "rail$k" mtu "$1"; done
  done
}

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# server LISTEN [OPTIONS]: in the background on the right host; waits until it listens.
server() {
  SPINDRIFT_HOST_ID=right ip netns exec "$right" "$tool" perf server --listen "$@" \
    >"$out/server" 2>&1 &
  server_pid=$!
  for _ in $(seq 100); do
    ip netns exec "$right" ss -Hlun 2>/dev/null | grep 4793 >/dev/null && return
    sleep 0.05
  done
  fail "the server does not listen: $(cat "$out/server")"
}

stop_server() {
  kill "$server_pid" 2>/dev/null
  wait "$server_pid" 2>/dev/null
}

# client NAME ADDRESS OPTIONS...: its JSON is in $out/client.
client() {
  local name=$1
  shift
  if SPINDRIFT_HOST_ID=left timeout 60 ip netns exec "$left" "$tool" perf "$@" --json \
    >"$out/client" 2>"$out/errors"; then
    echo "ok: $name ($((SECONDS)) s)"
  else
    fail "$name: $(cat "$out/errors") $(head -c 600 "$out/client")"
  fi
}

# expect NAME EXPRESSION: EXPRESSION in Python over the last client's document `d`.
expect() {
  python3 -c "
import json, sys
d = json.load(open('$out/client'))
sys.exit(0 if $2 else 1)" || fail "$1: not true: $2"
}

for mtu in 1500 9000; do
  set_mtu $mtu
  payload=1408
  [ $mtu = 9000 ] && payload=8832
  server udp://0.0.0.0:4793
  for op in write write-imm send read; do
    client "mtu $mtu, $op" 10.1.0.2 --op $op --test both --size 100000 --iterations 200 --verify
  done
  client "mtu $mtu, atomic" 10.1.0.2 --op atomic --test both --iterations 200 --verify
  client "mtu $mtu, payload" 10.1.0.2 --size 1M --iterations 20 --verify
  expect "mtu $mtu gives payload MTU $payload" "d['connection']['payload_mtu'] == $payload"
  expect "CRC is on between hosts" "d['connection']['has_crc'] is True"
  expect "16 paths carry packets" \
    "sum(p['packets'] > 0 for p in d['account']['client']['paths']) == 16"
  client "mtu $mtu, 5 % loss, reordering, duplicates and corruption" 10.1.0.2 --op write \
    --size 300000 --iterations 100 --verify \
    --fault loss=5%,reorder=5%,duplicate=2%,corrupt=1%
  expect "losses were repaired by retransmission" \
    "d['account']['client']['counters']['retransmits_reordered'] > 0"
  stop_server
done

server "udp://[fd01::2]:4793"
client "IPv6" "udp://[fd01::2]:4793" --op send --size 50000 --iterations 100 --verify
stop_server

server udp://10.1.0.2:4793,10.2.0.2:4793
client "two rails" udp://10.1.0.2:4793,10.2.0.2:4793 --rails 10.1.0.1,10.2.0.1 --size 200000 \
  --iterations 200 --verify
expect "both rails carry packets" "all(any(p['packets'] > 0 for p in
  d['account']['client']['paths'][i::2]) for i in (0, 1))"

# A server killed in the middle: the client ends by itself, and says who is gone.
SPINDRIFT_HOST_ID=left timeout 30 ip netns exec "$left" "$tool" perf 10.1.0.2 --duration 20 \
  >"$out/client" 2>"$out/errors" &
client_pid=$!
sleep 1
kill -9 "$server_pid"
start=$SECONDS
wait "$client_pid"
code=$?
[ $code = 1 ] || fail "killed server: the client's exit code is $code, not 1"
grep -q "10.1.0.2" "$out/errors" || fail "killed server: no peer named: $(cat "$out/errors")"
[ $((SECONDS - start)) -le 10 ] || fail "killed server: the client took $((SECONDS - start)) s"
echo "ok: killed server: $(tail -n 1 "$out/errors")"

# All-reduce between the hosts.
for rank in 0 1; do
  ns=$left
  [ $rank = 1 ] && ns=$right
  SPINDRIFT_HOST_ID=$ns timeout 60 ip netns exec "$ns" "$tool" coll allreduce --rank $rank \
    --world 2 --rendezvous 10.1.0.1:5555 -b 1K -e 1M -f 32 -n 5 -w 1 -c 1 --fault loss=1% \
    >"$out/rank$rank" 2>&1 &
  eval "rank${rank}_pid=\$!"
done
# shellcheck disable=SC2154
wait "$rank0_pid" || fail "all-reduce, rank 0: $(tail -n 5 "$out/rank0")"
# shellcheck disable=SC2154
wait "$rank1_pid" || fail "all-reduce, rank 1: $(tail -n 5 "$out/rank1")"
grep -q "Out of bounds values : 0 OK" "$out/rank0" || fail "all-reduce is not verified"
echo "ok: all-reduce between hosts"

[ $failures = 0 ] && echo "all passed" || echo "$failures failed"
exit $((failures != 0))
