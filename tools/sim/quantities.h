#pragma once
// Times, rates, sizes and shares as people write them in scenarios: "1.5 us", "100 Gb/s", "2 MiB".
// A space before the unit is optional. Results are whole; what is no whole number is an error.
#include <cstdint>
#include <string>
#include <string_view>

#include "spindrift/result.h"

#include "sim/time.h"

namespace spindrift::simtool {

// ps, ns, us, ms or s; only 0 needs no unit.
Result<sim::Picoseconds> parse_time(std::string_view text);
// b/s, Kb/s, Mb/s, Gb/s, Tb/s or K, M, G, T: powers of 1000. A bare number is bits per second.
Result<std::uint64_t> parse_rate(std::string_view text);
// B, KiB, MiB, GiB or K, M, G: powers of 1024. A bare number is bytes.
Result<std::uint64_t> parse_bytes(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text);
Result<double> parse_number(std::string_view text);
Result<bool> parse_flag(std::string_view text);  // true, yes, on, 1; false, no, off, 0

// In the largest unit that needs at most three decimals: the text means the same number again.
std::string format_time(sim::Picoseconds time);
std::string format_rate(std::uint64_t bits_per_second);
std::string format_bytes(std::uint64_t bytes);
// The shortest text that means the same number.
std::string format_number(double value);

// For tables: three significant digits and a unit.
std::string rounded_time(double picoseconds);
std::string rounded_rate(double bits_per_second);
std::string rounded_bytes(double bytes);

}  // namespace spindrift::simtool
