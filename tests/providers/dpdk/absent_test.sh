#!/usr/bin/env bash
# Where there is no DPDK to build with, the rest of the project is configured without this provider,
# and says so. usage: absent_test.sh SOURCE_DIR CC CXX
set -u
source=$1 cc=$2 cxx=$3
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# pkg-config that knows all packages but that one.
mkdir "$build/packages"
IFS=: read -ra folders <<<"$(pkg-config --variable pc_path pkg-config)"
find "${folders[@]}" -name '*.pc' ! -name 'libdpdk*' -exec ln -sft "$build/packages" {} + 2>/dev/null
export PKG_CONFIG_LIBDIR=$build/packages PKG_CONFIG_PATH=
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  -DSPINDRIFT_BENCH=OFF >"$build/log" 2>&1 || fail "configuring: $(tail -n 9 "$build/log")"
grep 'dpdk: not built.*libdpdk-dev' "$build/log" || fail "it does not say that dpdk is left out"
targets=$(ninja -C "$build" -t targets all) || fail "there are no targets"
grep -q '^dpdk_frame_test:' <<<"$targets" || fail "what needs no DPDK is left out too"
if grep -E '^(spindrift_module_dpdk|dpdk_io_test|dpdk_limit):' <<<"$targets"; then
  fail "that is to be built without DPDK"
fi
