#!/usr/bin/env bash
# Two processes over each kind of link that needs no NIC: every operation verified, with the largest
# frames and the smallest, over IPv4 and IPv6, through a VLAN, with losses; tshark finds nothing wrong
# with what is on the cable. usage: processes_e2e_test.sh PATH_OF_SPINDRIFT LINK
# LINK: memif, memif_zero_copy, vhost, af_packet, af_xdp, coll; kernel, kernel_tap: this host's own
# network at the other end of the cable (veth; tap), which pings, and talks over UDP sockets to a server
# over DPDK
set -u
tool=$1
link=$2
out=$(mktemp -d)
failures=0
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$out"; ip link del sdp0$$ 2>/dev/null' EXIT

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

socket=$out/s
mtu=9000
case $link in
memif | coll)
  near="net_memif0 role=server,socket=$socket,socket-abstract=no,bsize=9216"
  far="net_memif0 role=client,socket=$socket,socket-abstract=no,bsize=9216"
  ;;
memif_zero_copy)
  export SPINDRIFT_DPDK_EAL="--no-huge -m 256 --single-file-segments"
  near="net_memif0 role=server,socket=$socket,socket-abstract=no,bsize=9216"
  far="net_memif0 role=client,socket=$socket,socket-abstract=no,bsize=9216,zero-copy=yes"
  ;;
vhost)
  near="net_vhost0 iface=$socket,queues=1"
  far="net_virtio_user0 path=$socket,queues=1,queue_size=1024"
  ;;
kernel_tap)
  if [ "$(id -u)" != 0 ] || [ ! -c /dev/net/tun ]; then
    echo "NOT TESTED: tap needs root and /dev/net/tun" >&2
    exit 77
  fi
  mtu=1500
  near="net_tap0 iface=sdp1$$"
  ;;
af_packet | af_xdp | kernel)
  # The driver numbers its sockets by process and interface, and two of one number refuse each
  # other: interfaces that differ more than processes do have none in common.
  index=$((0x4000 + $$ % 0x3000))
  if [ "$(id -u)" != 0 ] || ! ip link add sdp0$$ index $index type veth \
    peer name sdp1$$ index $((index + 0x8000)) 2>/dev/null; then
    echo "NOT TESTED: $link needs root and veth interfaces" >&2
    exit 77
  fi
  [ "$link" = af_xdp ] && mtu=3000
  for side in 0 1; do ip link set sdp$side$$ mtu $mtu up; done
  # The kernel looks at its links once a second at most, and drops what is sent before.
  for side in 0 1; do
    for _ in $(seq 100); do
      if [[ "$(cat /sys/class/net/sdp$side$$/operstate)" == up ]]; then break; fi
      sleep 0.05
    done
  done
  ring="blocksz=65536,framesz=16384,framecnt=256"
  near="net_af_packet0 iface=sdp0$$,$ring"
  far="net_af_packet0 iface=sdp1$$,$ring"
  if [ "$link" = af_packet ]; then
    near+="&mac=02:00:00:00:11:01"
    far+="&mac=02:00:00:00:11:02"
  elif [ "$link" = af_xdp ]; then
    near="net_af_xdp0 iface=sdp0$$"
    far="net_af_xdp0 iface=sdp1$$"
  fi
  ;;
esac

# address "DEVICE ARGS" IP...: what opens an endpoint there.
address() {
  echo "dpdk://${1%% *}?ip=$2&mtu=$mtu&${3:+$3&}args=${1#* }"
}

# run NEAR-IP FAR-IP TARGET OPTIONS [ARGUMENTS]: a server at one end, a client at the other.
run() {
  local near_ip=$1 far_ip=$2 target=$3 options=$4
  shift 4
  rm -f "$socket" "$out/server"
  SPINDRIFT_HOST_ID=near timeout 60 "$tool" perf server --once --listen "$(address "$near" "$near_ip" "$options")" \
    >"$out/server" 2>&1 &
  local server=$!
  for _ in $(seq 200); do
    grep listening "$out/server" >/dev/null 2>&1 && break
    sleep 0.05
  done
  SPINDRIFT_HOST_ID=far timeout 30 "$tool" perf "$target" \
    --device "$(address "$far" "$far_ip" "$options")" "$@" >"$out/client" 2>&1 || {
    fail "$link: $*: $(tail -3 "$out/client") server: $(tail -2 "$out/server")"
    kill $server
  }
  wait $server || fail "$link: the server of $*: $(tail -2 "$out/server")"
}

v4() { run 10.0.0.1/24 10.0.0.2/24 dpdk://10.0.0.1 "$@"; }

if [[ $link = kernel* ]]; then
  SPINDRIFT_HOST_ID=near timeout 100 "$tool" perf server --listen \
    "$(address "$near" 10.99.0.1/24,fd99::1/64 checksum=on)" >"$out/server" 2>&1 &
  server=$!
  for _ in $(seq 200); do
    grep listening "$out/server" >/dev/null 2>&1 && break
    sleep 0.05
  done
  # The driver of tap gives its own address to the kernel's end as well.
  ip link set sdp1$$ address 02:00:00:00:77:02 up
  ip addr add 10.99.0.9/24 dev sdp1$$
  ip addr add fd99::9/64 dev sdp1$$ nodad
  ping -c 3 -i 0.2 -W 2 10.99.0.1 >"$out/ping" || fail "ping: $(tail -2 "$out/ping")"
  ping -c 2 -i 0.2 -W 2 -s 1400 10.99.0.1 >"$out/ping" || fail "long ping: $(tail -2 "$out/ping")"
  ping -6 -c 3 -i 0.2 -W 2 fd99::1 >"$out/ping" || fail "ping over IPv6: $(tail -2 "$out/ping")"
  socket_perf() {
    # What a socket sends as one is cut by hardware, which there is none of on this cable.
    SPINDRIFT_UDP_GSO=0 SPINDRIFT_HOST_ID=far timeout 30 "$tool" perf "$@" >"$out/client" 2>&1 ||
      fail "sockets: $*: $(tail -2 "$out/client")"
  }
  socket_perf 'udp://10.99.0.1' --op write --size 100000 -n 200 --warmup 0 --verify
  socket_perf 'udp://[fd99::1]' --op read --size 10000 -n 200 --warmup 0 --verify
  # The cable is out for a while, in the middle.
  (sleep 0.5; ip link set sdp1$$ down; sleep 0.2; ip link set sdp1$$ up; ip addr add fd99::9/64 dev sdp1$$ nodad) &
  socket_perf 'udp://10.99.0.1' --op send --size 64K -D 2
  # Another Ethernet address at the other end, in the middle.
  (sleep 0.5; ip link set sdp1$$ address 02:00:00:00:77:01) &
  socket_perf 'udp://10.99.0.1' --op write --size 64K -D 2
  kill $server
  wait $server 2>/dev/null
  exit $((failures > 0))
fi

if [ "$link" = coll ]; then
  for rank in 0 1; do
    end=$near
    [ $rank = 1 ] && end=$far
    SPINDRIFT_HOST_ID=rank$rank timeout 60 "$tool" coll allreduce --rank $rank --ranks 2 \
      --rendezvous 127.0.0.1:$((20000 + $$ % 20000)) -b 1K -e 1M -f 32 -n 5 -w 1 -c 1 \
      --address "$(address "$end" 10.0.0.$((rank + 1))/24)" >"$out/rank$rank" 2>&1 &
    pids[rank]=$!
    sleep 0.7
  done
  for rank in 0 1; do
    wait "${pids[rank]}" || fail "all-reduce, rank $rank: $(tail -3 "$out/rank$rank")"
  done
  exit $((failures > 0))
fi

v4 "" --op write --size 1M -n 200 --warmup 0 --verify
if [ "$link" = memif ]; then
  grep -q 'tx_in_place' "$out/client" || fail "$link: no payload was sent from where it lies"
  # Neighbours are asked whether they are still there, and answer, in the middle of it.
  v4 neighbor_ms=20 --op write --size 64K -D 1
  grep -E 'port[0-9]+_control_sent +[0-9]{2}' "$out/client" || fail "$link: no neighbour was asked again"
fi
v4 "" --op send --size 64 -n 2000 --warmup 0 --verify

# Memory links as a user without any right.
if [ "$(id -u)" = 0 ] && [[ $link != af_* ]]; then
  mkdir "$out/bin" && chmod 711 "$out"
  cp "$tool" "$(dirname "$tool")/../lib/spindrift/libspindrift-dpdk.so" "$out/bin"
  install -d -o 65534 -g 65534 "$out/nobody"
  cat >"$out/bin/as_nobody" <<TEXT
#!/bin/sh
export SPINDRIFT_MODULES=$out/bin HOME=$out/nobody XDG_RUNTIME_DIR=$out/nobody
exec setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all $out/bin/${tool##*/} "\$@"
TEXT
  chmod 755 "$out/bin/as_nobody"
  (
    tool=$out/bin/as_nobody near=${near//$socket/$out/nobody/s} far=${far//$socket/$out/nobody/s}
    socket=$out/nobody/s failures=0
    v4 "" --op write --size 1M -n 100 --warmup 0 --verify
    v4 "" --op send --size 64 -n 1000 --warmup 0 --verify
    exit $failures
  ) || fail "$link as an unprivileged user"
fi
v4 checksum=on --op read --size 100000 -n 100 --warmup 0 --verify
if [ "$link" = memif ] || [ "$link" = af_packet ]; then
  v4 vlan=100 --op write --size 64K -n 100 --warmup 0 --verify
  v4 "" --op send --size 1 -n 500 --warmup 0 --verify
  v4 "" --op write --size 64K -n 200 --warmup 0 --verify --fault loss=1%
  run fd00::1/64 fd00::2/64 'dpdk://[fd00::1]' "" --op write --size 64K -n 100 --warmup 0 --verify
fi

# While a client transfers, strace looks at its thread for a second: sets `made`, the system calls that
# it made, and `frames`, what the interface of the cable sent in that time.
count_calls() {
  rm -f "$socket" "$out/server" "$out/calls"
  local sent=/sys/class/net/sdp1$$/statistics/tx_packets server client
  SPINDRIFT_HOST_ID=near timeout 60 "$tool" perf server --once \
    --listen "$(address "$near" 10.0.0.1/24)" >"$out/server" 2>&1 &
  server=$!
  for _ in $(seq 200); do
    grep listening "$out/server" >/dev/null 2>&1 && break
    sleep 0.05
  done
  SPINDRIFT_HOST_ID=far "$tool" perf dpdk://10.0.0.1 --device "$(address "$far" 10.0.0.2/24)" \
    --op write --size 1M -D 4 >"$out/client" 2>&1 &
  client=$!
  # It says where it is once it is connected, which takes seconds where processors are busy.
  for _ in $(seq 200); do
    grep "Local address" "$out/client" >/dev/null 2>&1 && break
    sleep 0.05
  done
  sleep 1
  frames=$(cat $sent 2>/dev/null || echo 0)
  timeout -s INT 1 strace -c -o "$out/calls" -p $client 2>/dev/null
  frames=$(($(cat $sent 2>/dev/null || echo 0) - frames))
  wait $client || fail "$link: while strace looked on: $(tail -n 3 "$out/client")"
  wait $server || fail "$link: the server, while strace looked on: $(tail -n 2 "$out/server")"
  [ -e "$out/calls" ] || echo "NOT TESTED: strace is not here, or may not look at processes" >&2
  made=$(awk '$NF == "total" { print $4 }' "$out/calls" 2>/dev/null)
  made=${made:-0}
}
count_calls
# Memory links need none; sockets one for a burst of frames.
if [ $((made * 4)) -gt "$frames" ]; then
  fail "$link: $made system calls in a second, for $frames frames: $(cat "$out/calls")"
fi

if [ "$link" = af_packet ]; then
  [ "$(cat /sys/class/net/sdp0$$/address)" != 02:00:00:00:11:01 ] ||
    fail "mac= has changed the address of the kernel's interface"
  # Once more while the kernel's end of the cable is listened to.
  dumpcap -q -i sdp1$$ -w "$out/wire.pcapng" >/dev/null 2>&1 &
  capture=$!
  sleep 1
  v4 checksum=on --op write --size 64K -n 20 --warmup 0
  v4 "checksum=on&vlan=100" --op send --size 1 -n 20 --warmup 0
  run fd00::1/64 fd00::2/64 'dpdk://[fd00::1]' "" --op read --size 9000 -n 20 --warmup 0
  sleep 1
  kill $capture
  wait $capture 2>/dev/null
  count() {
    tshark -r "$out/wire.pcapng" -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y "$1" \
      2>/dev/null | wc -l
  }
  bad=$(count '_ws.malformed || udp.checksum.status == 0 || ip.checksum.status == 0 ||
    icmpv6.checksum.status == 0 || frame.len < 60')
  [ "$bad" = 0 ] || fail "tshark finds $bad bad frames: $(tshark -r "$out/wire.pcapng" \
    -Y '_ws.malformed || udp.checksum.status == 0 || frame.len < 60' | head -3)"
  for kind in 'udp && ip && !vlan' 'udp && ipv6' 'udp && vlan.id == 100' arp icmpv6; do
    [ "$(count "$kind")" -gt 1 ] || fail "the capture has no frames of: $kind"
  done
fi
exit $((failures > 0))
