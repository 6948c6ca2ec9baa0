#!/usr/bin/env bash
# A server and a client in C, as two processes.  hello_c_e2e_test.sh HELLO_C
set -euo pipefail
hello="$1"
out="$(mktemp)"
for address in udp://127.0.0.1:0 "shm://hello-c-$$"; do
  "$hello" server "$address" >"$out" &
  server=$!
  trap 'kill "$server" 2>/dev/null || true; rm -f "$out"' EXIT
  for _ in $(seq 200); do
    if grep -q '^listening on ' "$out"; then break; fi
    sleep 0.05
  done
  "$hello" client "$(sed -n 's/^listening on //p' "$out")"
  wait "$server"
  grep -q '^received: hello from C$' "$out"
done
[[ "$("$hello" 2>&1 || echo "exit $?")" == *"exit 2" ]]
if "$hello" client pigeon://x 2>"$out"; then exit 1; fi
grep -q pigeon "$out"
if SPINDRIFT_PATH_COUNT=0 "$hello" client udp://127.0.0.1:9 2>"$out"; then exit 1; fi
grep -q 'environment: SPINDRIFT_PATH_COUNT is .0.; it must be 1' "$out"
