// Values of tunables as people write and read them, and the check of their bounds.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"

namespace spindrift {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kSizes[] = {{"", 1},           {"B", 1},           {"K", 1024},
                           {"KiB", 1024},     {"M", 1048576},     {"MiB", 1048576},
                           {"G", 1073741824}, {"GiB", 1073741824}};
constexpr Unit kTimes[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                           {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
constexpr Unit kRates[] = {{"", 1},       {"bps", 1}, {"K", 1e3},    {"Kbps", 1e3}, {"M", 1e6},
                           {"Mbps", 1e6}, {"G", 1e9}, {"Gbps", 1e9}, {"T", 1e12},   {"Tbps", 1e12}};

std::span<const Unit> units_of(TunableType type) {
  switch (type) {
    case TunableType::kCount:
    case TunableType::kBytes:
      return kSizes;
    case TunableType::kDuration:
      return kTimes;
    case TunableType::kRate:
      return kRates;
    case TunableType::kFlag:
    case TunableType::kChoice:
    case TunableType::kText:
    case TunableType::kList:
      return {};
  }
  return {};
}

std::string_view writing_of(TunableType type) {
  switch (type) {
    case TunableType::kCount:
    case TunableType::kBytes:
      return "a whole number, or one with K, M or G (powers of 1024)";
    case TunableType::kDuration:
      return "a number with its unit: ns, us, ms, s, m or h";
    case TunableType::kRate:
      return "a number of bits per second, or one with K, M, G or T (powers of 1000)";
    case TunableType::kFlag:
      return "on or off";
    case TunableType::kChoice:
    case TunableType::kText:
    case TunableType::kList:
      return "";
  }
  return "";
}

Error not_written_so(const Tunable& tunable) {
  return Error(ErrorCode::kInvalidArgument,
               absl::StrCat("it must be ", std::string(writing_of(tunable.type))));
}

// In units of one; 2^63 and more does not fit a double exactly and is taken only when plain.
Result<std::uint64_t> parse_number(const Tunable& tunable, std::string_view text) {
  const char* end = text.data() + text.size();
  std::uint64_t whole = 0;
  const auto plain = std::from_chars(text.data(), end, whole);
  const bool needs_unit = tunable.type == TunableType::kDuration && whole != 0;
  if (plain.ec == std::errc{} && plain.ptr == end && !needs_unit) return whole;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(value) || value < 0)
    return not_written_so(tunable);
  const std::string_view suffix(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  for (const Unit& unit : units_of(tunable.type)) {
    if (unit.name != suffix) continue;
    const double product = value * unit.factor;
    if (product != std::floor(product) || product >= 0x1p63) break;
    return static_cast<std::uint64_t>(product);
  }
  return not_written_so(tunable);
}

Result<std::uint64_t> parse_flag(const Tunable& tunable, std::string_view text) {
  for (const std::string_view yes : {"1", "true", "yes", "on"})
    if (text == yes) return 1;
  for (const std::string_view no : {"0", "false", "no", "off"})
    if (text == no) return 0;
  return not_written_so(tunable);
}

Result<std::uint64_t> parse_choice(const Tunable& tunable, std::string_view text) {
  const auto found = std::find(tunable.choices.begin(), tunable.choices.end(), text);
  if (found != tunable.choices.end())
    return static_cast<std::uint64_t>(found - tunable.choices.begin());
  return Error(ErrorCode::kInvalidArgument, "it must be " + format_bounds(tunable));
}

bool is_text(TunableType type) {
  return type == TunableType::kText || type == TunableType::kList;
}

bool is_within(const Tunable& tunable, std::uint64_t number) {
  return number >= tunable.lowest && number <= tunable.highest && number % tunable.multiple_of == 0;
}

// The largest unit that leaves no fraction.
std::string with_unit(std::uint64_t number, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (unit.name.size() <= 2 && factor > static_cast<std::uint64_t>(best->factor) && number != 0 &&
        number % factor == 0)
      best = &unit;
  }
  return absl::StrCat(number / static_cast<std::uint64_t>(best->factor), std::string(best->name));
}

std::string format_number(const Tunable& tunable, std::uint64_t number) {
  switch (tunable.type) {
    case TunableType::kBytes:
      return with_unit(number, kSizes);
    case TunableType::kRate:
      return with_unit(number, kRates);
    case TunableType::kDuration: {
      const auto ns = static_cast<std::int64_t>(number);
      if (ns == 0) return "0";
      return ns < 0 ? absl::StrCat(ns, "ns") : with_unit(number, kTimes);
    }
    case TunableType::kFlag:
      return number == 0 ? "off" : "on";
    case TunableType::kChoice:
      return number < tunable.choices.size() ? std::string(tunable.choices[number])
                                             : absl::StrCat(number);
    case TunableType::kCount:
    case TunableType::kText:
    case TunableType::kList:
      return absl::StrCat(number);
  }
  return {};
}

std::string_view owner_of(TunableScope scope) {
  switch (scope) {
    case TunableScope::kEndpoint:
      return "EndpointConfig::";
    case TunableScope::kConnect:
      return "ConnectOptions::";
    case TunableScope::kListen:
      return "ListenOptions::";
    case TunableScope::kUdp:
    case TunableScope::kShm:
    case TunableScope::kEnvironment:
      return "";
  }
  return "";
}

Status check_scope(const Settings& settings, TunableScope scope) {
  for (const Tunable& tunable : tunables()) {
    if (tunable.scope != scope || is_text(tunable.type)) continue;
    const TunableValue value = tunable.get(settings);
    if (is_within(tunable, value.number)) continue;
    return Error(
        ErrorCode::kInvalidArgument,
        absl::StrCat(std::string(owner_of(scope)), std::string(tunable.name), " is ",
                     format_value(tunable, value), "; it must be ", format_bounds(tunable)));
  }
  return ok_status();
}

}  // namespace

Result<TunableValue> parse_value(const Tunable& tunable, std::string_view text) {
  if (is_text(tunable.type)) return TunableValue{.text = std::string(text)};
  const Result<std::uint64_t> number =
      tunable.type == TunableType::kFlag     ? parse_flag(tunable, text)
      : tunable.type == TunableType::kChoice ? parse_choice(tunable, text)
                                             : parse_number(tunable, text);
  if (!number.ok()) return number.error();
  if (!is_within(tunable, number.value()))
    return Error(ErrorCode::kInvalidArgument, "it must be " + format_bounds(tunable));
  return TunableValue{.number = number.value()};
}

std::string format_value(const Tunable& tunable, const TunableValue& value) {
  return is_text(tunable.type) ? value.text : format_number(tunable, value.number);
}

std::string format_bounds(const Tunable& tunable) {
  switch (tunable.type) {
    case TunableType::kText:
      return "any text";
    case TunableType::kList:
      return "texts separated by commas";
    case TunableType::kFlag:
      return "on or off";
    case TunableType::kChoice: {
      std::string out;
      for (std::size_t i = 0; i < tunable.choices.size(); ++i)
        absl::StrAppend(&out,
                        i == 0                            ? ""
                        : i + 1 == tunable.choices.size() ? " or "
                                                          : ", ",
                        std::string(tunable.choices[i]));
      return out;
    }
    case TunableType::kDuration:
      if (tunable.highest == INT64_MAX) return "0 or more";
      break;
    case TunableType::kRate:
      if (tunable.highest == UINT64_MAX) return "0 or more";
      break;
    case TunableType::kCount:
    case TunableType::kBytes:
      break;
  }
  const bool is_time = tunable.type == TunableType::kDuration;
  std::string range = absl::StrCat(format_number(tunable, tunable.lowest), is_time ? " .. " : "..",
                                   format_number(tunable, tunable.highest));
  if (tunable.type == TunableType::kBytes)
    range = absl::StrCat(tunable.lowest, "..", tunable.highest);
  return tunable.multiple_of == 1
             ? range
             : absl::StrCat("a multiple of ", tunable.multiple_of, " in ", range);
}

Status check_bounds(const EndpointConfig& config) {
  return check_scope(Settings{.endpoint = config}, TunableScope::kEndpoint);
}

Status check_bounds(const ConnectOptions& options) {
  Status status = check_scope(Settings{.connect = options}, TunableScope::kConnect);
  if (!status.ok() || options.rto_max >= options.rto_min) return status;
  const Tunable& rto = *find_tunable("rto_max");
  const TunableValue lowest{.number = static_cast<std::uint64_t>(options.rto_min.count())};
  const TunableValue value{.number = static_cast<std::uint64_t>(options.rto_max.count())};
  return Error(ErrorCode::kInvalidArgument,
               absl::StrCat("ConnectOptions::rto_max is ", format_value(rto, value),
                            "; it must not be below rto_min, ", format_value(rto, lowest)));
}

Status check_bounds(const ListenOptions& options) {
  return check_scope(Settings{.listen = options}, TunableScope::kListen);
}

Status check_bounds(const UdpOptions& options) {
  return check_scope(Settings{.udp = options}, TunableScope::kUdp);
}

Status check_bounds(const ShmOptions& options) {
  return check_scope(Settings{.shm = options}, TunableScope::kShm);
}

}  // namespace spindrift
