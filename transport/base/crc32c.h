#pragma once
// CRC-32C (Castagnoli, reflected, initial value and final xor all ones), as in iSCSI and SCTP.
#include <cstddef>
#include <cstdint>
#include <span>

namespace spindrift {

// `crc` is the finished value of the bytes before these: crc32c(b, crc32c(a)) == crc32c(a + b).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

}  // namespace spindrift
