#!/usr/bin/env bash
# The command with plug-ins: perf and coll by file, info and perf by SPINDRIFT_PLUGINS, and what is
# refused.  plugins_e2e_test.sh SPINDRIFT CUSTOM_CC PLUGIN_DIR
set -uo pipefail
tool="$1" custom="$2" plugins="$3"
out="$(mktemp)" conf="$(mktemp)"
trap 'rm -f "$out" "$conf"' EXIT

# expect CODE WORD COMMAND...: the command ends with CODE and says WORD.
expect() {
  local code="$1" word="$2" ended=0
  shift 2
  "$@" >"$out" 2>&1 || ended=$?
  if [[ "$ended" != "$code" ]] || ! grep -q -- "$word" "$out"; then
    printf 'FAILED: %s\nexit code %s (expected %s), expected the word "%s"; it said:\n' "$*" \
      "$ended" "$code" "$word"
    cat "$out"
    exit 1
  fi
}

perf=("$tool" perf local -s 64K -n 200)
expect 0 'aimd' "${perf[@]}" --cc "$custom"
expect 0 'aimd' "${perf[@]}" --op read --cc "$custom:decrease=0.3"
expect 0 'evens' "${perf[@]}" --path-policy "$plugins/several.so"
expect 0 'steady' "${perf[@]}" --cc "$plugins/several.so:steady:packets=16"
expect 0 'aimd' env SPINDRIFT_PLUGINS="$custom" "${perf[@]}" --cc aimd
expect 2 'no such file' "${perf[@]}" --cc ./nowhere.so
expect 2 'version 2' "${perf[@]}" --cc "$plugins/broken_wrong_version.so"
expect 2 '0.01..0.9' "${perf[@]}" --cc "$custom:decrease=2"
expect 2 'SPINDRIFT_PLUGINS: plug-in ./nowhere.so: there is no such file' \
  env SPINDRIFT_PLUGINS=./nowhere.so "${perf[@]}"
expect 2 'environment: SPINDRIFT_CONGESTION_CONTROL: plug-in ./nowhere.so: .*no such file' \
  env SPINDRIFT_CONGESTION_CONTROL=./nowhere.so "${perf[@]}"
expect 2 'SPINDRIFT_PATH_SELECTOR: plug-in /dev/null: it cannot be loaded' \
  env SPINDRIFT_PATH_SELECTOR=/dev/null:x "$tool" coll allreduce --ranks 2
printf 'congestion_control = ./nowhere.so\n' >"$conf"
expect 2 "$conf:1: congestion_control: plug-in ./nowhere.so: .*no such file" \
  env SPINDRIFT_CONFIG="$conf" "${perf[@]}"
expect 0 'custom_cc.so' "$tool" coll allreduce --ranks 2 -b 64K -e 64K -n 3 --cc "$custom"
expect 2 'steady, two' "$tool" coll allreduce --ranks 2 -b 64K -e 64K --cc "$plugins/several.so"
expect 0 'aimd' env SPINDRIFT_PLUGINS="$custom" "$tool" info
expect 0 'no such file' env SPINDRIFT_PLUGINS="./nowhere.so:$custom" "$tool" info
echo "all as expected"
