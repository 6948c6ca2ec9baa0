#!/bin/sh
# What the plugin says in NCCL's log: a line when it is loaded, one per connection, one when it closes, and one
# about a lost peer, within 5 s by default. usage: log_e2e_test.sh NCCL_NET_CHECK PLUGIN
check="$1" plugin="$2" failures=0
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

# run ARGUMENTS...: what is said comes to $said.
run() {
  said="$("$check" --plugin "$plugin" --versions 11 --env SPINDRIFT_NCCL_IFNAME=lo --verbose "$@" 2>&1)" || {
    echo "$*: $said"
    failures=$((failures + 1))
  }
}
# says COUNT PATTERN: so many lines do.
says() {
  [ "$(echo "$said" | grep -c -E "$2")" = "$1" ] || {
    echo "not $1 lines say '$2': $said"
    failures=$((failures + 1))
  }
}
# A process that connects to itself is both ends.
run --case connect_self
says 1 '^INFO NET/Spindrift : net API v11, Spindrift [0-9.]+, 1 device \(lo 127\.0\.0\.1 [0-9.]+ Gb/s\), provider udp and shm within a host, congestion control [a-z]+, path policy [a-z_]+, [0-9]+ entropy values, no polling threads$'
says 2 '^INFO NET/Spindrift : connection (to|from) shm://.* over shared memory'
run --case connect_self --env SPINDRIFT_NCCL_SHM=0 --env SPINDRIFT_NCCL_THREADS=1
says 1 'provider udp, .*, 1 polling threads$'
says 2 '^INFO NET/Spindrift : connection (to|from) udp://127\.0\.0\.1:[0-9]+ over lo, from udp://.*: [0-9]+ bytes per packet, [0-9]+ paths by [a-z_]+, congestion control [a-z]+, CRC (on|off)$'
says 2 '^INFO NET/Spindrift : closed the connection (to|from) udp://127\.0\.0\.1:[0-9]+ over lo: [0-9]+ messages, [0-9]+ bytes, [0-9]+ packets sent again, [0-9]+ paths went dark$'

# Transport tunables from a file; SPINDRIFT_CONF names it.
printf 'congestion_control = dcqcn\npath_count = 5\n' >"$folder/conf"
run --case connect_self --env SPINDRIFT_NCCL_SHM=0 --env "SPINDRIFT_CONF=$folder/conf"
says 1 'congestion control dcqcn, path policy [a-z_]+, 5 entropy values'
says 2 '5 paths by [a-z_]+, congestion control dcqcn'
said="$("$check" --plugin "$plugin" --versions 11 --case connect_self --env SPINDRIFT_CONF=/nowhere/conf)" &&
  says 1 'SPINDRIFT_CONF names a file that is not there'
says 1 '/nowhere/conf'

# lost CASE RAIL WORDS...: who, over what, what was last heard, and why.
lost() {
  case="$1" over="$2" words="$3"
  shift 3
  run --case "$case" "$@"
  says 1 "^WARN NET/Spindrift : the connection (to|from) .* over $over has failed: .*$words"
  seconds="$(echo "$said" | sed -n "s/^ *ok  *$case .*(\([0-9.]*\) s)$/\1/p")"
  [ -n "$seconds" ] && awk "BEGIN { exit !($seconds < 5) }" || {
    echo "$case: noticed after '$seconds' s, and 5 are the most: $said"
    failures=$((failures + 1))
  }
}
lost killed lo 'peer 127\.0\.0\.1:[0-9]+ open \(ICMP port unreachable, twice\): it ended' --env SPINDRIFT_NCCL_SHM=0
lost stopped lo 'peer 127\.0\.0\.1:[0-9]+ has been silent .*; last heard [0-9.]+ s ago; .* of 16 paths .*\. It died, was stopped' \
  --env SPINDRIFT_NCCL_SHM=0
lost killed 'shared memory' 'peer process [0-9]+ is gone: .*it was killed'
lost stopped 'shared memory' 'peer process [0-9]+ is silent: last heard [0-9.]+ s ago, .* is stopped'
exit $((failures > 0))
