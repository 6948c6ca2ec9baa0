#!/bin/sh
# Bad commands end with 2 and a sentence; a shared object that is no plugin fails with 1.
check="$1" plugin="$2"
expect() {
  wanted="$1"
  shift
  said="$("$check" "$@" 2>&1)"
  code=$?
  if [ "$code" != "$wanted" ] || [ -z "$said" ]; then
    echo "$* ended with $code instead of $wanted and said: $said"
    exit 1
  fi
}
expect 2
expect 2 --plugin /nowhere/libnccl-net-none.so
expect 2 --plugin "$plugin" --versions 5
expect 2 --plugin "$plugin" --case nonsense
expect 2 --plugin "$plugin" --ranks 9
expect 2 --plugin "$plugin" --measure nonsense
expect 1 --plugin /bin/true
expect 0 --list
# A setting that makes no sense is an error of init, and the plugin says which.
expect 1 --plugin "$plugin" --versions 11 --case finalize_null --env SPINDRIFT_NCCL_THREADS=many
"$check" --plugin "$plugin" --versions 11 --case finalize_null --env SPINDRIFT_NCCL_THREADS=many |
  grep -q 'SPINDRIFT_NCCL_THREADS=many is not a number of 0..64' || {
  echo "the refusal does not name the variable, its value and its bounds"
  exit 1
}
