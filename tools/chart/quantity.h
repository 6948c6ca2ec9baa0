#pragma once
// What a number measures, and how people read it. Not a parser: numbers become text here.
#include <cstdint>
#include <string>
#include <string_view>

namespace spindrift::chart {

enum class Quantity : std::uint8_t {
  kNumber,
  kTime,     // picoseconds; shown as ps, ns, µs, ms or s
  kBytes,    // shown as B, KiB, MiB or GiB
  kBitRate,  // bits per second; shown as b/s, kb/s, Mb/s, Gb/s or Tb/s
  kShare,    // 0..1; shown as percent
};

// A value divided by `divisor` is a number of `unit`s. The unit of plain numbers is empty.
struct Scale {
  double divisor = 1;
  std::string_view unit{};
};
// The largest unit of which `largest` is at least one.
Scale scale_for(Quantity quantity, double largest);

// With exactly so many decimals and a comma between thousands; never "-0".
std::string format_decimal(double number, int decimals);
// At least three significant digits and the unit: "1,234", "20.5 µs", "12 %"; a dash for NaN.
std::string format_value(Quantity quantity, double value);

}  // namespace spindrift::chart
