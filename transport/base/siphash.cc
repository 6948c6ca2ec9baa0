#include "transport/base/siphash.h"

#include <bit>
#include <cstring>

namespace spindrift {

namespace {

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie");

struct SipState {
  std::uint64_t v0;
  std::uint64_t v1;
  std::uint64_t v2;
  std::uint64_t v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void absorb(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t siphash24(std::span<const std::byte> bytes, const SipKey& key) {
  SipState state{.v0 = key.k0 ^ 0x736f6d6570736575ULL,
                 .v1 = key.k1 ^ 0x646f72616e646f6dULL,
                 .v2 = key.k0 ^ 0x6c7967656e657261ULL,
                 .v3 = key.k1 ^ 0x7465646279746573ULL};
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state.absorb(word);
    bytes = bytes.subspan(sizeof(word));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  state.absorb(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i)
    state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace spindrift
