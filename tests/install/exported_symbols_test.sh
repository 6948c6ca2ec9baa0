#!/usr/bin/env bash
# The shared library exports exactly what is listed: no part of Abseil, no internals, and nothing of
# the C API is lost.  exported_symbols_test.sh LIBRARY LIST
# To accept a change: nm -D --defined-only LIBRARY | cut -d' ' -f3- | c++filt | LC_ALL=C sort -u > LIST
set -euo pipefail
library="$1" list="$2"
if ! diff <(LC_ALL=C sort -u "$list") \
  <(nm -D --defined-only "$library" | cut -d' ' -f3- | c++filt | LC_ALL=C sort -u); then
  echo "$library does not export what $list says ('<': missing, '>': too much)"
  exit 1
fi
readelf -d "$library" | grep 'SONAME.*libspindrift\.so\.0\]' >/dev/null
