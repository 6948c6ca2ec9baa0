#!/bin/sh
# A device merged of two interfaces carries data over both of them. Needs root for a network namespace.
check="$1" plugin="$2"
[ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null || exit 77
exec unshare -n sh -c '
  ip link set lo up
  for i in 0 1; do
    ip link add "rail$i" type veth peer name "far$i" || exit 77
    ip addr add "10.78.$i.1/24" dev "rail$i"
    ip link set "rail$i" up
    ip link set "far$i" up
  done
  said="$("$0" --plugin "$1" --versions 12,9 --case merged --env SPINDRIFT_NCCL_SHM=0 --env SPINDRIFT_NCCL_IFNAME=rail --verbose 2>&1)" || {
    echo "$said"
    exit 1
  }
  echo "$said" | grep -q "2 hold, 0 do not" || { echo "not run: $said"; exit 1; }
  # By the policy that gives more to the faster rail.
  echo "$said" | grep -q "paths by least_rtt" || { echo "rails are not measured: $said"; exit 1; }
  # Both rails carried some of it.
  echo "$said" | grep "closed the connection to" | grep -E "10\.78\.0\.1 [0-9]+ %.*10\.78\.1\.1 [0-9]+ %" |
    grep -vq " 0 %" || { echo "one rail carried nothing: $said"; exit 1; }
' "$check" "$plugin"
