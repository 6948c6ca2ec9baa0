#pragma once
// Which entry of a port's GID table a connection uses, and why. The table holds the same addresses
// several times over, for protocols and scopes that do not all lead anywhere. Pure: what stands in
// the table is read elsewhere. Internal to providers/verbs.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

using GidBytes = std::array<std::uint8_t, 16>;

enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };
std::string_view to_string(GidType type);

struct GidEntry {
  std::uint32_t index = 0;
  GidBytes gid{};
  GidType type = GidType::kInfiniBand;
  std::string interface {};      // of the kernel; empty: unknown, as for InfiniBand
  bool is_interface_up = true;   // true where it is unknown
  std::uint8_t prefix_bits = 0;  // of the interface's network that it belongs to; 0: unknown
};

// RoCE v2 carries IP: the address that a GID stands for. An IPv4 address is ::ffff:a.b.c.d.
NetAddress address_of(const GidBytes& gid);
GidBytes gid_of(const NetAddress& address);
bool is_link_local(const GidBytes& gid);

// What the user wants, and who is at the other end, where that is known.
struct GidWish {
  std::optional<std::uint32_t> index{};
  std::optional<NetAddress> address{};
  std::string origin{};  // of the two: "gid=3"
  std::optional<NetAddress> peer{};
};

// "GID 1 (RoCE v2, 10.0.0.1, eth0)"
std::string to_string(const GidEntry& entry);

// How an entry fares. The higher score is chosen; of equal ones the first.
struct GidRank {
  std::uint32_t score = 0;
  std::string lacks{};  // "not RoCE v2, link-local"; empty: nothing
};
inline constexpr std::uint32_t kBestGidScore = 63;
GidRank rank_gid(const GidEntry& entry, const GidWish& wish);

struct GidChoice {
  GidEntry entry{};
  std::string reason{};  // "GID 3 (RoCE v2, 10.0.0.1, eth0): ..."
};

// Errors name the port, which is `where`, and what stands in its table.
Result<GidChoice> choose_gid(std::span<const GidEntry> table, const GidWish& wish,
                             const std::string& where);

}  // namespace spindrift
