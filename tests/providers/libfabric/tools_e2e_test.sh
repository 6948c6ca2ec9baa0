#!/usr/bin/env bash
# The tools over libfabric's net, as a user runs them: two processes, one of which is killed, and what is
# said of wrong addresses.
# usage: tools_e2e_test.sh PATH_OF_SPINDRIFT
set -u
tool=$1
out=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$out"' EXIT

fail() {
  echo "FAILED: $1"
  cat "$out"/* 2>/dev/null
  exit 1
}

# What a server that was started in the background says that it listens at.
address_of() {
  for _ in $(seq 200); do
    grep -o 'ofi://[^ ]*' "$1" && return
    sleep 0.05
  done
}

"$tool" perf server --listen ofi://net@127.0.0.1:0 >"$out/server" 2>&1 &
server=$!
address=$(address_of "$out/server")
[ -n "$address" ] || fail "the server does not listen"
"$tool" perf "$address" --op send -s 100K -n 50 --test both --verify >"$out/client" 2>&1 ||
  fail "perf over $address"
grep -q 'Paths per conn.   : 1$' "$out/client" || fail "perf counts other lanes than the one there is"

"$tool" perf "$address" -D 60 >"$out/client" 2>&1 &
client=$!
for _ in $(seq 200); do
  grep -q MsgRate "$out/client" && break
  sleep 0.05
done
kill -KILL $server
wait $server 2>/dev/null
wait $client
[ $? -eq 1 ] || fail "a client whose server was killed"
grep -q "$address.*was killed" "$out/client" || fail "the client does not name the server that was killed"

common="coll allreduce --ranks 2 --rendezvous file://$out/meeting --address ofi://net@127.0.0.1:0"
common="$common --provider ofi -b 4 -e 1M -f 64 -n 3 --timeout 30"
# shellcheck disable=SC2086
"$tool" $common --rank 1 >"$out/one" 2>&1 &
one=$!
# shellcheck disable=SC2086
"$tool" $common --rank 0 >"$out/zero" 2>&1 || fail "rank 0"
wait $one || fail "rank 1"
for wanted in "values : 0 OK" "] ofi to 1"; do
  grep -qF "$wanted" "$out/zero" || fail "no \"$wanted\""
done

# refuses WANTED_EXIT WANTED_TEXT WORDS...
refuses() {
  local code=$1 text=$2
  shift 2
  "$tool" "$@" >"$out/refusal" 2>&1
  [ $? -eq "$code" ] || fail "$*: not exit code $code"
  grep -qF -- "$text" "$out/refusal" || fail "$*: no \"$text\""
}
refuses 2 "'abc'" perf ofi://net@127.0.0.1:abc
refuses 2 "as in ofi://net@10.0.0.1:4793" perf ofi://
refuses 2 "no name of a provider" info ofi://4@
refuses 2 "does not go with" coll allreduce --ranks 2 --rank 0 --rendezvous 127.0.0.1:4793 --provider udp \
  --address ofi://net@127.0.0.1:0
refuses 2 "not both net and ofi" perf server --listen ofi://net@127.0.0.1:0,ofi@127.0.0.1:0
export FI_PROVIDER=udp
refuses 1 "FI_PROVIDER=udp hides all others" info ofi://net
echo "all passed"
