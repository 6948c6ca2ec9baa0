#pragma once
// Sizes and durations as people type them, and the sizes and depths that measurements use.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift::perf {

// "64", "64K", "8M", "1G" (powers of 1024; an optional B or iB may follow).
Result<std::uint64_t> parse_bytes(std::string_view text);
// "5", "5s", "1.5s", "200ms", "10us", "50ns", "2m"; a bare number is seconds.
Result<Duration> parse_duration(std::string_view text);
// "1500us": in the largest unit that leaves no fraction.
std::string format_duration(Duration duration);
// "64K" for whole multiples of 1024, else the plain number.
std::string format_bytes(std::uint64_t bytes);

inline constexpr std::uint64_t kLargestLadderBytes = 8ULL << 20;
// 2 B .. 8 MiB in powers of two.
std::vector<std::uint64_t> size_ladder();

// Messages in flight per connection when the user names no depth: enough bytes to fill a fast
// network, no more memory than needed. 16..128.
std::uint32_t default_depth(std::uint64_t message_bytes);

}  // namespace spindrift::perf
