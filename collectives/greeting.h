#pragma once
// Who calls: the private data of a connection between two ranks.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/rendezvous.h"

namespace spindrift::collectives {

// Refused with a sentence if it does not fit.
struct Greeting {
  static constexpr std::size_t kWireBytes = 32;
  std::uint64_t nonce = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t ranks = 0;
  std::uint32_t slice_bytes = 0;
  constexpr bool operator==(const Greeting&) const = default;
};
std::vector<std::byte> serialize(const Greeting& greeting);
// Why a caller with this private data does not belong to the group that `expected` (but for `from`)
// describes; empty: it does, and `from` is its rank.
std::string why_not(const Greeting& expected, std::span<const std::byte> private_data,
                    std::uint32_t& from);

}  // namespace spindrift::collectives
