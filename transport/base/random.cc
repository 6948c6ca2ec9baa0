#include "transport/base/random.h"

#include <cerrno>

#include <sys/random.h>

#include "transport/base/check.h"

namespace spindrift {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    // A kernel without getrandom cannot give unguessable keys; going on would be worse than ending.
    SPINDRIFT_CHECK(got > 0);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace spindrift
