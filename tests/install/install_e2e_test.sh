#!/usr/bin/env bash
# Installs into a temporary folder and uses it as a stranger would: CMake, pkg-config with the shared
# and the static library, a plug-in, the command.
# install_e2e_test.sh SOURCE_DIR BUILD_DIR CC CXX
set -euo pipefail
source="$1" build="$2" cc="$3" cxx="$4"
here="$source/tests/install/outside"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
prefix="$work/first"
# Whatever fails, says so with its line.
trap 'echo "failed at line $LINENO: $BASH_COMMAND"; cat "$work/log" 2>/dev/null || true' ERR

cmake --install "$build" --prefix "$prefix" >"$work/log"
# The tree may be moved.
mv "$prefix" "$work/prefix"
prefix="$work/prefix"
library="$(dirname "$(find "$prefix" -name libspindrift.so)")"
diff <(cd "$source/include/spindrift" && ls -- *.h) <(cd "$prefix/include/spindrift" && ls)
test -L "$library/libspindrift.so.0"
find "$prefix" -name LICENSE | grep . >/dev/null
export LD_LIBRARY_PATH="$library"

# C++ by find_package, against both libraries.
cmake -S "$here" -B "$work/outside" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_COMPILER="$cxx" >"$work/log"
cmake --build "$work/outside" -j 2 >"$work/log"
"$work/outside/with_shared"
"$work/outside/with_static"
ldd "$work/outside/with_shared" | grep 'libspindrift\.so\.0 => ' >/dev/null
if ldd "$work/outside/with_static" | grep libspindrift >/dev/null; then exit 1; fi

# C by pkg-config.
export PKG_CONFIG_PATH="$library/pkgconfig"
# shellcheck disable=SC2046  # several words each
{
  "$cc" -std=c11 "$here/program.c" -o "$work/c_shared" $(pkg-config --cflags --libs spindrift)
  "$cc" -std=c11 "$here/program.c" -o "$work/c_static" $(pkg-config --static \
    --define-variable=library=:libspindrift.a --cflags --libs spindrift)
}
"$work/c_shared"
ldd "$work/c_shared" | grep 'libspindrift\.so\.0 => ' >/dev/null
env -u LD_LIBRARY_PATH "$work/c_static"
if ldd "$work/c_static" | grep libspindrift >/dev/null; then exit 1; fi

# A plug-in needs nothing but the headers, and works in the installed command.
# shellcheck disable=SC2046
"$cxx" -std=c++20 -shared -fPIC "$source/examples/custom_cc.cc" -o "$work/libcustom_cc.so" \
  $(pkg-config --cflags spindrift)
cd "$work"
"$prefix/bin/spindrift" perf local --op write -s 4K -n 100 --cc ./libcustom_cc.so >"$work/log"
grep -q aimd "$work/log"
SPINDRIFT_PLUGINS=./libcustom_cc.so "$work/c_shared" aimd

# The NCCL plugin and its checker, as NCCL finds the plugin: by the library path.
"$prefix/bin/nccl_net_check" --plugin "$library/libnccl-net-spindrift.so" --versions 11 \
  --case properties,connect_self >"$work/log"
trap - ERR
echo "installed, built against, and run"
