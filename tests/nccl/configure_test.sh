#!/bin/sh
# Where pkg-config knows no package at all, an Abseil built by hand is enough for the library that NCCL
# loads. usage: configure_test.sh SOURCE_DIR CC CXX
build="$(mktemp -d)" || exit 1
trap 'rm -rf "$build"' EXIT
PKG_CONFIG_LIBDIR="$build" PKG_CONFIG_PATH= cmake -S "$1" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$2" \
  -DCMAKE_CXX_COMPILER="$3" -DSPINDRIFT_BENCH=OFF -DSPINDRIFT_TESTS=OFF >"$build/log" 2>&1 || {
  tail -n 12 "$build/log"
  exit 1
}
ninja -C "$build" -t targets all | grep -q '^spindrift_nccl:' || {
  echo "the library for NCCL is left out"
  exit 1
}
