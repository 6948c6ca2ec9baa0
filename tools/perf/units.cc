#include "tools/perf/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"

namespace spindrift::perf {
namespace {

struct Number {
  double value = 0;
  std::string_view suffix;
};

bool split_number(std::string_view text, Number* out) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, out->value, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(out->value) || out->value < 0) return false;
  out->suffix = std::string_view(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  return true;
}

// Bytes one unit of `suffix` stands for; zero: no such suffix.
std::uint64_t bytes_per_unit(std::string_view suffix) {
  if (suffix.empty() || suffix == "B" || suffix == "b") return 1;
  const std::string_view rest = suffix.substr(1);
  if (!(rest.empty() || rest == "B" || rest == "iB" || rest == "b")) return 0;
  switch (std::toupper(static_cast<unsigned char>(suffix.front()))) {
    case 'K':
      return 1ULL << 10;
    case 'M':
      return 1ULL << 20;
    case 'G':
      return 1ULL << 30;
    default:
      return 0;
  }
}

double ns_per_unit(std::string_view suffix) {
  struct Unit {
    std::string_view name;
    double ns;
  };
  static constexpr std::array<Unit, 6> kUnits = {
      {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}}};
  for (const Unit& unit : kUnits) {
    if (unit.name == suffix) return unit.ns;
  }
  return 0;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  Number number;
  const std::uint64_t unit =
      split_number(text, &number) ? bytes_per_unit(number.suffix) : std::uint64_t{0};
  const double bytes = number.value * static_cast<double>(unit);
  if (unit == 0 || bytes != std::floor(bytes)) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("'%s' is not a size; write bytes, or a number with K, M or G, "
                                 "like 64K",
                                 text));
  }
  if (bytes > 1e15) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("size '%s' is too large to mean anything here", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<Duration> parse_duration(std::string_view text) {
  Number number;
  const double unit_ns = split_number(text, &number) ? ns_per_unit(number.suffix) : 0;
  if (unit_ns == 0) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("'%s' is not a duration; write seconds, or a number with m, s, "
                                 "ms, us or ns, like 500ms",
                                 text));
  }
  const double ns = number.value * unit_ns;
  if (ns > 1e18) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("duration '%s' is longer than 30 years", text));
  }
  return Duration(static_cast<std::int64_t>(ns));
}

std::string format_duration(Duration duration) {
  static constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  std::int64_t value = duration.count();
  std::size_t unit = 0;
  while (value != 0 && value % 1000 == 0 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%d%s", value, kUnits[unit]);
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<char, 3> kSuffixes = {'K', 'M', 'G'};
  std::string suffix;
  for (const char letter : kSuffixes) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    suffix = letter;
  }
  return absl::StrFormat("%u%s", bytes, suffix);
}

std::vector<std::uint64_t> size_ladder() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = 2; bytes <= kLargestLadderBytes; bytes *= 2)
    sizes.push_back(bytes);
  return sizes;
}

std::uint32_t default_depth(std::uint64_t message_bytes) {
  if (message_bytes <= 4096) return 128;
  if (message_bytes <= 65536) return 64;
  return message_bytes <= (1ULL << 20) ? 32 : 16;
}

}  // namespace spindrift::perf
