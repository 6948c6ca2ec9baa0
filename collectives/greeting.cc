#include "collectives/greeting.h"

#include <absl/strings/str_format.h>

#include "transport/base/bytes.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x53504752;  // "SPGR"
constexpr std::uint32_t kGreetingVersion = 2;

}  // namespace

std::vector<std::byte> serialize(const Greeting& greeting) {
  std::vector<std::byte> wire(Greeting::kWireBytes);
  ByteWriter writer(wire);
  writer.u32(kGreetingMagic);
  writer.u32(kGreetingVersion);
  writer.u64(greeting.nonce);
  writer.u32(greeting.from);
  writer.u32(greeting.to);
  writer.u32(greeting.ranks);
  writer.u32(greeting.slice_bytes);
  return wire;
}

std::string why_not(const Greeting& expected, std::span<const std::byte> private_data,
                    std::uint32_t& from) {
  ByteReader reader(private_data);
  const std::uint32_t magic = reader.u32();
  const std::uint32_t version = reader.u32();
  Greeting said;
  said.nonce = reader.u64();
  said.from = reader.u32();
  said.to = reader.u32();
  said.ranks = reader.u32();
  said.slice_bytes = reader.u32();
  if (reader.has_failed() || magic != kGreetingMagic) return "this address serves a group of ranks";
  if (version != kGreetingVersion) {
    return absl::StrFormat("collectives version %d meets %d: use one version of the library",
                           version, kGreetingVersion);
  }
  if (said.nonce != expected.nonce) return "this address serves another job";
  if (said.from >= expected.ranks || said.to != expected.to || said.ranks != expected.ranks) {
    return absl::StrFormat("rank %d of %d calls rank %d; this is rank %d of %d", said.from,
                           said.ranks, said.to, expected.to, expected.ranks);
  }
  if (said.slice_bytes != expected.slice_bytes) {
    return absl::StrFormat("slices of %d bytes meet slices of %d: give all ranks the same",
                           said.slice_bytes, expected.slice_bytes);
  }
  from = said.from;
  return {};
}

}  // namespace spindrift::collectives
