#include <string>

#include "spindrift/memory.h"

#include "transport/base/bytes.h"
#include "transport/base/crc32c.h"

namespace spindrift {

// 0 version | 1 rights | 2 zero (2) | 4 CRC-32C (4) | 8 key (8) | 16 bytes (8) | 24 base (8).
// The CRC covers all other bytes: a region that took a wrong turn through an application's own
// messages is refused where it arrives, not at the first operation.
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kCrcOffset = 4;
constexpr std::size_t kKeyOffset = 8;
constexpr std::uint8_t kRightsMask = static_cast<std::uint8_t>(kAllAccess);

std::uint32_t checksum(std::span<const std::byte> wire) {
  return crc32c(wire.subspan(kKeyOffset), crc32c(wire.first(kCrcOffset)));
}

Error refusal(const std::string& what) {
  return Error(ErrorCode::kInvalidArgument,
               "these bytes are not a remote region: " + what +
                   "; pass the 32 bytes that RemoteRegion::serialize() gave on the other side");
}

}  // namespace

std::array<std::byte, RemoteRegion::kWireBytes> RemoteRegion::serialize() const {
  std::array<std::byte, kWireBytes> wire{};
  ByteWriter writer(wire);
  writer.u8(kVersion);
  writer.u8(static_cast<std::uint8_t>(rights));
  writer.u16(0);
  writer.u32(0);
  writer.u64(key);
  writer.u64(bytes);
  writer.u64(base);
  store_be(std::span<std::byte>(wire), kCrcOffset, checksum(wire));
  return wire;
}

Result<RemoteRegion> RemoteRegion::deserialize(std::span<const std::byte> wire) {
  if (wire.size() != kWireBytes) {
    return refusal("there are " + std::to_string(wire.size()) + ", not 32");
  }
  ByteReader reader(wire);
  const std::uint8_t version = reader.u8();
  if (version != kVersion) {
    return refusal("version " + std::to_string(version) + " instead of " +
                   std::to_string(kVersion));
  }
  const std::uint8_t rights = reader.u8();
  const std::uint16_t reserved = reader.u16();
  if (reader.u32() != checksum(wire)) return refusal("the checksum does not match");
  if ((rights & ~kRightsMask) != 0 || reserved != 0) return refusal("unknown access rights");
  RemoteRegion region;
  region.key = reader.u64();
  region.bytes = reader.u64();
  region.base = reader.u64();
  region.rights = static_cast<Access>(rights);
  return region;
}

}  // namespace spindrift
