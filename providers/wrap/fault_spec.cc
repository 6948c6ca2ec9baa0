#include "providers/wrap/fault_spec.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace spindrift {
namespace {

constexpr Duration kMaxTime = std::chrono::seconds(10);
constexpr std::uint16_t kMaxReorderPackets = 1024;
constexpr std::uint16_t kMaxRail = 255;

constexpr const char* kKnownKeys =
    "loss, duplicate, reorder, corrupt (0%..100%), delay, jitter, reorder_time (0..10s, as in "
    "100us), reorder_packets (1..1024), blackhole (evFIRST-LAST@START+LENGTH), paths and rails "
    "(FIRST-LAST), seed";

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// from_chars for double takes "inf" and "nan" too: refused by the callers' bounds.
std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> probability(std::string_view text) {
  const bool is_percentage = text.ends_with('%');
  if (is_percentage) text.remove_suffix(1);
  auto value = number(text);
  if (!value) return std::nullopt;
  if (is_percentage) *value /= 100;
  if (*value < 0 || *value > 1) return std::nullopt;
  return value;
}

std::optional<Duration> time_span(std::string_view text, Duration limit = kMaxTime) {
  struct Unit {
    std::string_view name;
    double ns;
  };
  // Longest first: "ms" ends with "s".
  static constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = number(text.substr(0, text.size() - unit.name.size()));
    if (!value || *value < 0) return std::nullopt;
    const double ns = *value * unit.ns;
    if (ns > static_cast<double>(limit.count())) return std::nullopt;
    return Duration(static_cast<std::int64_t>(ns));
  }
  return std::nullopt;
}

std::optional<FaultRange> range(std::string_view text, std::uint16_t limit) {
  const std::size_t dash = text.find('-');
  const auto first = whole_number<std::uint16_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : whole_number<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first > *last || *last > limit) return std::nullopt;
  return FaultRange{*first, *last};
}

// ev3@100ms+2s
std::optional<Blackhole> blackhole(std::string_view text) {
  constexpr Duration kMaxWindow = std::chrono::hours(24);
  const std::size_t at = text.find('@');
  const std::size_t plus = text.find('+');
  if (!text.starts_with("ev") || at == std::string_view::npos || plus == std::string_view::npos ||
      plus < at) {
    return std::nullopt;
  }
  const auto entropies = range(text.substr(2, at - 2), kMaxPaths - 1);
  const auto start = time_span(text.substr(at + 1, plus - at - 1), kMaxWindow);
  const auto length = time_span(text.substr(plus + 1), kMaxWindow);
  if (!entropies || !start || !length) return std::nullopt;
  return Blackhole{*entropies, *start, *length};
}

template <class T>
bool assign(T& target, const std::optional<T>& value) {
  if (value) target = *value;
  return value.has_value();
}

enum class Outcome : std::uint8_t { kSet, kBadValue, kUnknownKey };

Outcome outcome(bool is_set) {
  return is_set ? Outcome::kSet : Outcome::kBadValue;
}

Outcome set(FaultConfig& config, std::string_view key, std::string_view value) {
  if (key == "loss") return outcome(assign(config.loss, probability(value)));
  if (key == "duplicate") return outcome(assign(config.duplicate, probability(value)));
  if (key == "reorder") return outcome(assign(config.reorder, probability(value)));
  if (key == "corrupt") return outcome(assign(config.corrupt, probability(value)));
  if (key == "delay") return outcome(assign(config.delay, time_span(value)));
  if (key == "jitter") return outcome(assign(config.jitter, time_span(value)));
  if (key == "reorder_time") return outcome(assign(config.reorder_time, time_span(value)));
  if (key == "paths") return outcome(assign(config.entropies, range(value, kMaxPaths - 1)));
  if (key == "rails") return outcome(assign(config.rails, range(value, kMaxRail)));
  if (key == "seed") return outcome(assign(config.seed, whole_number<std::uint64_t>(value)));
  if (key == "reorder_packets") {
    const bool is_set = assign(config.reorder_packets, whole_number<std::uint16_t>(value));
    return outcome(is_set && config.reorder_packets >= 1 &&
                   config.reorder_packets <= kMaxReorderPackets);
  }
  if (key == "blackhole") {
    const auto hole = blackhole(value);
    if (hole) config.blackholes.push_back(*hole);
    return outcome(hole.has_value());
  }
  return Outcome::kUnknownKey;
}

Error bad_item(std::string_view item, const char* what) {
  return Error(ErrorCode::kInvalidArgument,
               std::string("fault '") + std::string(item) + "' " + what + "; known: " + kKnownKeys);
}

}  // namespace

Result<FaultConfig> parse_fault_spec(std::string_view spec) {
  FaultConfig config;
  while (!spec.empty()) {
    const std::size_t comma = spec.find(',');
    const std::string_view item = spec.substr(0, comma);
    spec.remove_prefix(comma == std::string_view::npos ? spec.size() : comma + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return bad_item(item, "is not of the form key=value");
    switch (set(config, item.substr(0, equals), item.substr(equals + 1))) {
      case Outcome::kSet:
        break;
      case Outcome::kBadValue:
        return bad_item(item, "has a value outside its bounds or without its unit");
      case Outcome::kUnknownKey:
        return bad_item(item, "has an unknown key");
    }
  }
  return config;
}

}  // namespace spindrift
