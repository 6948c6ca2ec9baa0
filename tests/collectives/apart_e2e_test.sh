#!/usr/bin/env bash
# Two ranks of one host in mount namespaces that do not share /dev/shm, as containers often are: they
# talk over UDP, and one note says why.
# usage: apart_e2e_test.sh PATH_OF_SPINDRIFT
set -u
tool=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! unshare --mount true 2>/dev/null; then
  echo "NOT TESTED: mount namespaces need root; run this test as root" >&2
  exit 77
fi

place=file://$out/meeting
common="coll allreduce --ranks 2 --rendezvous $place -b 4K -n 3 --timeout 30"
# shellcheck disable=SC2086
unshare --mount sh -c "mount -t tmpfs none /dev/shm && exec \"\$@\"" sh \
  "$tool" $common --rank 1 >"$out/one" 2>&1 &
one=$!
# shellcheck disable=SC2086
if ! "$tool" $common --rank 0 >"$out/zero" 2>&1 || ! wait "$one"; then
  cat "$out/zero" "$out/one"
  exit 1
fi
for wanted in "values : 0 OK" "] udp to 1" "note: rank 0 talks to rank 1 over udp://"; do
  grep -qF "$wanted" "$out/zero" && continue
  echo "FAILED: no \"$wanted\" in:"
  cat "$out/zero"
  exit 1
done
if grep -q note "$out/one"; then
  echo "FAILED: the second rank repeats it:"
  cat "$out/one"
  exit 1
fi
echo "all passed"
