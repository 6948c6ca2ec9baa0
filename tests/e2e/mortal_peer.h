#pragma once
// What the test and the process it kills agree on.
#include <cstdint>

namespace spindrift {

inline constexpr std::uint32_t kPeerMessage = 262144;  // bytes of a message
inline constexpr std::uint32_t kPeerMemory = 1U << 20U;

}  // namespace spindrift
