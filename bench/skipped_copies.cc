#include "bench/skipped_copies.h"

namespace {

std::size_t skipped_bytes = 0;
std::uint64_t skipped_count = 0;

}  // namespace

// The linker's names for the function that stands in and for the one it stands in for.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  if (bytes != skipped_bytes || bytes == 0) return __real_memcpy(to, from, bytes);
  ++skipped_count;
  return to;
}
}

namespace spindrift::bench {

void skip_copies_of(std::size_t bytes) {
  skipped_bytes = bytes;
}

std::uint64_t skipped_copies() {
  return skipped_count;
}

}  // namespace spindrift::bench
