#pragma once
// IP and UDP headers around a payload. Internal to providers/wrap.
#include <cstddef>
#include <cstdint>
#include <span>

#include "spindrift/address.h"
#include "spindrift/provider.h"

namespace spindrift {

inline constexpr std::size_t kMaxFrameHeaderBytes = 48;  // IPv6 and UDP

struct FrameAddresses {
  NetAddress source{};
  NetAddress destination{};
  std::uint8_t dscp = 0;
  Ecn ecn = Ecn::kNotEct;
};

inline std::size_t frame_header_bytes(const NetAddress& address) {
  return address.family == 6 ? 48 : 28;
}

// `frame` holds the payload from frame_header_bytes(source) on; the headers are written before it,
// lengths and checksums included. Both addresses are of one family.
void write_frame_headers(std::span<std::byte> frame, const FrameAddresses& addresses);

}  // namespace spindrift
