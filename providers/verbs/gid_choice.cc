#include "providers/verbs/gid_choice.h"

#include <algorithm>
#include <string_view>

namespace spindrift {
namespace {

bool is_v4_mapped(const GidBytes& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

std::string host_text(const NetAddress& address) {
  std::string text = address.to_string();
  text.resize(text.rfind(':'));
  return text;
}

bool shares_network(const GidEntry& entry, const NetAddress& peer) {
  const NetAddress own = address_of(entry.gid);
  if (entry.prefix_bits == 0 || own.family != peer.family) return false;
  for (std::size_t bit = 0; bit < entry.prefix_bits; bit += 8) {
    const std::size_t left = entry.prefix_bits - bit;
    const unsigned mask = left >= 8 ? 0xffU : (0xff00U >> left) & 0xffU;
    if (((own.ip[bit / 8] ^ peer.ip[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

// What speaks for an entry, the weightiest first. Each decides only where all before it are equal.
struct Merit {
  std::string_view lack;  // said of an entry that has it not
  bool (*has)(const GidEntry& entry, const GidWish& wish);
};
constexpr std::array<Merit, 6> kMerits{{
    {"not RoCE v2",
     [](const GidEntry& entry, const GidWish&) { return entry.type != GidType::kRoceV1; }},
    {"of an interface that is down",
     [](const GidEntry& entry, const GidWish&) { return entry.is_interface_up; }},
    {"another family than the peer's",
     [](const GidEntry& entry, const GidWish& wish) {
       return !wish.peer || address_of(entry.gid).family == wish.peer->family;
     }},
    {"link-local", [](const GidEntry& entry, const GidWish&) { return !is_link_local(entry.gid); }},
    {"another network than the peer's",
     [](const GidEntry& entry, const GidWish& wish) {
       return !wish.peer || shares_network(entry, *wish.peer);
     }},
    {"IPv6",
     [](const GidEntry& entry, const GidWish&) { return address_of(entry.gid).family == 4; }},
}};

static_assert(kBestGidScore == (1U << kMerits.size()) - 1);

std::uint32_t score(const GidEntry& entry, const GidWish& wish) {
  std::uint32_t sum = 0;
  for (const Merit& merit : kMerits)
    sum = sum * 2 + (merit.has(entry, wish) ? 1 : 0);
  return sum;
}

// The weightiest merit that `chosen` has and `other` lacks.
const Merit* difference(const GidEntry& chosen, const GidEntry& other, const GidWish& wish) {
  for (const Merit& merit : kMerits)
    if (merit.has(chosen, wish) && !merit.has(other, wish)) return &merit;
  return nullptr;
}

std::string list(std::span<const GidEntry> table) {
  std::string out;
  for (const GidEntry& entry : table)
    out += (out.empty() ? "" : "; ") + to_string(entry);
  return out.empty() ? "the table is empty" : out;
}

std::string reason_for(const GidEntry& chosen, std::span<const GidEntry> table,
                       const GidWish& wish) {
  std::string out = to_string(chosen);
  std::string others;
  for (const GidEntry& entry : table) {
    if (entry.index == chosen.index) continue;
    const Merit* const why = difference(chosen, entry, wish);
    others += (others.empty() ? "" : "; ") + std::to_string(entry.index) + " is " +
              std::string(why == nullptr ? "as good, and comes later" : why->lack);
  }
  return out + (others.empty() ? ": there is no other" : ": " + others);
}

}  // namespace

std::string_view to_string(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      break;
  }
  return "RoCE v2";
}

std::string to_string(const GidEntry& entry) {
  std::string out = "GID " + std::to_string(entry.index) + " (" +
                    std::string(to_string(entry.type)) + ", " + host_text(address_of(entry.gid));
  if (!entry.interface.empty()) out += ", " + entry.interface;
  return out + ")";
}

GidRank rank_gid(const GidEntry& entry, const GidWish& wish) {
  GidRank out{.score = score(entry, wish)};
  for (const Merit& merit : kMerits)
    if (!merit.has(entry, wish)) out.lacks.append(out.lacks.empty() ? "" : ", ").append(merit.lack);
  return out;
}

NetAddress address_of(const GidBytes& gid) {
  NetAddress out;
  if (is_v4_mapped(gid)) {
    out.family = 4;
    std::copy(gid.begin() + 12, gid.end(), out.ip.begin());
  } else {
    out.family = 6;
    out.ip = gid;
  }
  return out;
}

GidBytes gid_of(const NetAddress& address) {
  if (address.family == 6) return address.ip;
  GidBytes out{};
  out[10] = 0xff;
  out[11] = 0xff;
  std::copy_n(address.ip.begin(), 4, out.begin() + 12);
  return out;
}

bool is_link_local(const GidBytes& gid) {
  if (is_v4_mapped(gid)) return gid[12] == 169 && gid[13] == 254;
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

Result<GidChoice> choose_gid(std::span<const GidEntry> table, const GidWish& wish,
                             const std::string& where) {
  if (table.empty())
    return Error(ErrorCode::kUnavailable,
                 where +
                     " has no GID that can be read: give its network interface an address, or, "
                     "in a container, make the interface visible there");
  if (wish.index || wish.address) {
    // Of entries with one address, the better protocol.
    const GidEntry* found = nullptr;
    for (const GidEntry& entry : table) {
      const bool is_meant = wish.index ? entry.index == *wish.index
                                       : address_of(entry.gid).is_same_host(*wish.address);
      if (is_meant && (found == nullptr || score(entry, wish) > score(*found, wish)))
        found = &entry;
    }
    if (found == nullptr)
      return Error(ErrorCode::kInvalidArgument,
                   where + " has no GID for " + wish.origin + "; it has: " + list(table));
    return GidChoice{.entry = *found,
                     .reason = to_string(*found) + ": " + wish.origin + " says so"};
  }
  const GidEntry* best = &table.front();
  for (const GidEntry& entry : table)
    if (score(entry, wish) > score(*best, wish)) best = &entry;
  return GidChoice{.entry = *best, .reason = reason_for(*best, table, wish)};
}

}  // namespace spindrift
