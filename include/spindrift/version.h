#pragma once
// Library and wire versions. The policy is in CONTRIBUTING.md, "Compatibility".
#include <cstdint>
#include <string_view>

namespace spindrift {

inline constexpr std::uint32_t kVersionMajor = 0;
inline constexpr std::uint32_t kVersionMinor = 1;
inline constexpr std::uint32_t kVersionPatch = 0;
inline constexpr std::string_view kVersion = "0.1.0";

// Wire versions this library speaks; HELLO settles on the highest that both sides know.
inline constexpr std::uint16_t kWireVersionMin = 1;
inline constexpr std::uint16_t kWireVersionMax = 1;

}  // namespace spindrift
