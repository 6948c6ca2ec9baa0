#include "tools/sim/quantities.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "absl/strings/str_format.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kThousand = 1000;
constexpr std::array kTimes = {
    Unit{"s", kThousand* kThousand* kThousand* kThousand},
    Unit{"ms", kThousand* kThousand* kThousand},
    Unit{"us", kThousand* kThousand},
    Unit{"ns", kThousand},
    Unit{"ps", 1},
};
constexpr std::array kRates = {
    Unit{"Tb/s", kThousand* kThousand* kThousand* kThousand},
    Unit{"Gb/s", kThousand* kThousand* kThousand},
    Unit{"Mb/s", kThousand* kThousand},
    Unit{"Kb/s", kThousand},
    Unit{"b/s", 1},
};
constexpr std::array kSizes = {
    Unit{"GiB", 1ULL << 30U},
    Unit{"MiB", 1ULL << 20U},
    Unit{"KiB", 1ULL << 10U},
    Unit{"B", 1},
};

Error wrong(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The number that the whole text is.
template <class T>
std::optional<T> whole_text(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && at == end ? std::optional<T>(value) : std::nullopt;
}

// A number and what follows it. Decimals are exact: digits are counted, not rounded.
struct Parts {
  unsigned __int128 digits = 0;
  unsigned decimals = 0;
  std::string_view unit{};
  bool is_valid = false;
};

Parts split(std::string_view text) {
  Parts parts;
  bool is_behind_point = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !is_behind_point) {
      is_behind_point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9') break;
    if (parts.digits >> 96U != 0) return {};
    parts.digits = parts.digits * 10 + static_cast<unsigned>(text[at] - '0');
    parts.is_valid = true;
    if (is_behind_point) ++parts.decimals;
  }
  parts.unit = trimmed(text.substr(at));
  return parts;
}

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// "G" for "Gb/s" and "GiB".
bool names(std::string_view written, const Unit& unit) {
  if (is_same_word(written, unit.name)) return true;
  return written.size() == 1 && unit.name.size() > 2 &&
         is_same_word(written, unit.name.substr(0, 1));
}

Result<std::uint64_t> scaled(std::string_view text, std::span<const Unit> units,
                             std::string_view example, bool needs_unit) {
  const std::string_view word = trimmed(text);
  const Parts parts = split(word);
  const auto refuse = [&](std::string_view why) {
    return wrong(cat("'", word, "' ", why, "; write it like ", example));
  };
  if (!parts.is_valid) return refuse("is no number with a unit");
  std::uint64_t factor = parts.unit.empty() && (!needs_unit || parts.digits == 0) ? 1 : 0;
  for (const Unit& unit : units)
    if (names(parts.unit, unit)) factor = unit.factor;
  if (factor == 0) return refuse(parts.unit.empty() ? "lacks its unit" : "has an unknown unit");
  unsigned __int128 value = parts.digits * factor;
  for (unsigned i = 0; i < parts.decimals; ++i) {
    if (value % 10 != 0) return refuse("is finer than can be told apart");
    value /= 10;
  }
  if (value > INT64_MAX) return refuse("is too large");
  return static_cast<std::uint64_t>(value);
}

std::string in_units(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value < unit.factor) continue;
    // Three decimals say it exactly, or the next smaller unit is tried.
    const auto scaled = static_cast<unsigned __int128>(value) * kThousand;
    if (scaled % unit.factor != 0) continue;
    const auto thousandths = static_cast<std::uint64_t>(scaled / unit.factor);
    std::string text = absl::StrFormat("%d.%03d", thousandths / kThousand, thousandths % kThousand);
    while (text.back() == '0')
      text.pop_back();
    if (text.back() == '.') text.pop_back();
    return cat(text, " ", unit.name);
  }
  return cat("0 ", units.back().name);
}

std::string rounded(double value, std::span<const Unit> units) {
  if (!(value > 0)) return cat("0 ", units.back().name);
  for (const Unit& unit : units) {
    const double scaled = value / static_cast<double>(unit.factor);
    // 999.6 would be printed as 1000 of the smaller unit.
    if (scaled < 0.9995 && &unit != &units.back()) continue;
    const int decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
    return absl::StrFormat("%.*f %s", decimals, scaled, unit.name);
  }
  return {};
}

}  // namespace

Result<sim::Picoseconds> parse_time(std::string_view text) {
  const auto value = scaled(text, kTimes, "\"1.5 us\"", true);
  if (!value.ok()) return value.error();
  return static_cast<sim::Picoseconds>(value.value());
}
Result<std::uint64_t> parse_rate(std::string_view text) {
  return scaled(text, kRates, "\"100 Gb/s\"", false);
}
Result<std::uint64_t> parse_bytes(std::string_view text) {
  return scaled(text, kSizes, "\"2 MiB\"", false);
}
Result<std::uint64_t> parse_count(std::string_view text) {
  const auto value = whole_text<std::uint64_t>(trimmed(text));
  if (!value) return wrong(cat("'", text, "' is no whole number"));
  return *value;
}
Result<double> parse_number(std::string_view text) {
  std::string_view word = trimmed(text);
  const bool is_percent = word.ends_with('%');
  if (is_percent) word = trimmed(word.substr(0, word.size() - 1));
  const auto value = whole_text<double>(word);
  if (!value || !std::isfinite(*value)) return wrong(cat("'", text, "' is no number"));
  return is_percent ? *value / 100 : *value;
}
Result<bool> parse_flag(std::string_view text) {
  const std::string_view word = trimmed(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return wrong(cat("'", text, "' is neither true nor false"));
}

std::string format_time(sim::Picoseconds time) {
  return time <= 0 ? "0" : in_units(static_cast<std::uint64_t>(time), kTimes);
}
std::string format_rate(std::uint64_t bits_per_second) {
  return in_units(bits_per_second, kRates);
}
std::string format_bytes(std::uint64_t bytes) {
  return in_units(bytes, kSizes);
}
std::string format_number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::string(text.data(), end) : std::string("0");
}

std::string rounded_time(double picoseconds) {
  return rounded(picoseconds, kTimes);
}
std::string rounded_rate(double bits_per_second) {
  return rounded(bits_per_second, kRates);
}
std::string rounded_bytes(double bytes) {
  return rounded(bytes, kSizes);
}

}  // namespace spindrift::simtool
