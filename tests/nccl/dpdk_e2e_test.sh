#!/usr/bin/env bash
# nccl_net_check over DPDK: two processes at the two ends of a link. What a process says to itself does
# not leave it, and a link has two ends: checks of one rank or three are not here.
# usage: dpdk_e2e_test.sh NCCL_NET_CHECK PLUGIN FOLDER_OF_MODULES memif|af_packet
set -u
check=$1 plugin=$2 link=$4
export SPINDRIFT_MODULES=$3
out=$(mktemp -d)
trap 'rm -rf "$out"; ip link del sdn0$$ 2>/dev/null' EXIT
order=()
case $link in
memif)
  # The side that makes the socket comes first.
  order=(--stagger 700)
  near="net_memif0?ip=10.79.0.1/24&mtu=9000&args=role=server"
  far="net_memif0?ip=10.79.0.2/24&mtu=9000&args=role=client"
  common="socket=$out/s,socket-abstract=no,bsize=9216"
  ;;
af_packet)
  # Numbers far apart, as the driver wants them (tests/providers/dpdk/processes_e2e_test.sh).
  index=$((0x4000 + $$ % 0x3000))
  if [ "$(id -u)" != 0 ] || ! ip link add sdn0$$ index $index type veth \
    peer name sdn1$$ index $((index + 0x8000)) 2>/dev/null; then
    echo "NOT TESTED: $link needs root and veth interfaces" >&2
    exit 77
  fi
  for side in 0 1; do ip link set sdn$side$$ mtu 9000 up; done
  for side in 0 1; do
    for _ in $(seq 100); do
      if [[ "$(cat /sys/class/net/sdn$side$$/operstate)" == up ]]; then break; fi
      sleep 0.05
    done
  done
  near="net_af_packet0?ip=10.79.0.1/24&mtu=9000&mac=02:00:00:00:11:01&args=iface=sdn0$$"
  far="net_af_packet0?ip=10.79.0.2/24&mtu=9000&mac=02:00:00:00:11:02&args=iface=sdn1$$"
  common="blocksz=65536,framesz=16384,framecnt=256"
  ;;
esac
"$check" --plugin "$plugin" --ranks 2 --timeout 120 "${order[@]}" --env SPINDRIFT_NCCL_SHM=0 \
  --rank-env "0:SPINDRIFT_NCCL_RAILS=dpdk://$near,$common" \
  --rank-env "1:SPINDRIFT_NCCL_RAILS=dpdk://$far,$common" "${@:5}"
