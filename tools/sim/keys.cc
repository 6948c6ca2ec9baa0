#include "tools/sim/keys.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_join.h"
#include "tools/sim/quantities.h"
#include "tools/sim/text.h"
#include "transport/base/edit_distance.h"

namespace spindrift::simtool {
namespace {

Error wrong(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

constexpr std::string_view kFaults = "faults[";
constexpr std::size_t kMaxFaults = 1000;

struct FaultName {
  std::size_t index = 0;
  std::string_view key;
};

// "faults[3].at"
std::optional<FaultName> fault_name(std::string_view name) {
  if (!name.starts_with(kFaults)) return std::nullopt;
  const char* const begin = name.data() + kFaults.size();
  const char* const end = name.data() + name.size();
  FaultName out;
  const auto [at, error] = std::from_chars(begin, end, out.index);
  if (error != std::errc{} || end - at < 2 || at[0] != ']' || at[1] != '.') return std::nullopt;
  out.key = std::string_view(at + 2, static_cast<std::size_t>(end - at - 2));
  return out;
}

template <class K>
const K* find(std::span<const K> keys, std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [name](const K& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

template <class K>
Error unknown(std::span<const K> keys, std::string_view name) {
  const auto nearest = std::min_element(keys.begin(), keys.end(), [name](const K& a, const K& b) {
    return edit_distance(a.name, name) < edit_distance(b.name, name);
  });
  return wrong(cat("there is no such key; the nearest is ", nearest->name,
                   " ('spindrift sim --keys' lists all)"));
}

std::string list_of(const Key& key) {
  return absl::StrJoin(key.choices, ", ",
                       [](std::string* out, std::string_view choice) { out->append(choice); });
}

struct Parser {
  const Key& key;
  std::string_view text;

  Status bounded(Result<std::uint64_t> value, std::uint64_t& out) const {
    if (!value.ok()) return value.error();
    const auto number = static_cast<double>(value.value());
    if (number < key.lowest || number > key.highest) return out_of_bounds();
    out = value.value();
    return ok_status();
  }
  Error out_of_bounds() const {
    return wrong(cat("'", text, "' is out of bounds; it must be ", describe_values(key)));
  }
  Result<std::uint64_t> whole() const {
    if (key.type == KeyType::kBytes) return parse_bytes(text);
    if (key.type == KeyType::kRate) return parse_rate(text);
    return parse_count(text);
  }
  Result<std::size_t> choice() const {
    const auto found = std::find(key.choices.begin(), key.choices.end(), text);
    if (found == key.choices.end()) return wrong(cat("'", text, "' is none of ", list_of(key)));
    return static_cast<std::size_t>(found - key.choices.begin());
  }

  Status operator()(std::uint64_t* field) const { return bounded(whole(), *field); }
  Status operator()(std::uint32_t* field) const {
    std::uint64_t value = 0;
    const Status status = bounded(whole(), value);
    if (status.ok()) *field = static_cast<std::uint32_t>(value);
    return status;
  }
  Status operator()(sim::Picoseconds* field) const {
    const auto time = parse_time(text);
    if (!time.ok()) return time.error();
    std::uint64_t value = 0;
    const Status status = bounded(static_cast<std::uint64_t>(time.value()), value);
    if (status.ok()) *field = static_cast<sim::Picoseconds>(value);
    return status;
  }
  Status operator()(double* field) const {
    const auto value = parse_number(text);
    if (!value.ok()) return value.error();
    if (value.value() < key.lowest || value.value() > key.highest) return out_of_bounds();
    *field = value.value();
    return ok_status();
  }
  Status operator()(bool* field) const {
    const auto value = parse_flag(text);
    if (!value.ok()) return value.error();
    *field = value.value();
    return ok_status();
  }
  Status operator()(std::string* field) const {
    if (!key.choices.empty()) {
      const auto index = choice();
      if (!index.ok()) return index.error();
    }
    *field = std::string(text);
    return ok_status();
  }
  template <class Enum>
  requires std::is_enum_v<Enum> Status operator()(Enum* field) const {
    const auto index = choice();
    if (!index.ok()) return index.error();
    *field = static_cast<Enum>(index.value());
    return ok_status();
  }
};

struct Printer {
  const Key& key;

  std::string operator()(const std::uint64_t* field) const {
    if (key.type == KeyType::kBytes) return format_bytes(*field);
    if (key.type == KeyType::kRate) return format_rate(*field);
    return cat(*field);
  }
  std::string operator()(const std::uint32_t* field) const {
    const std::uint64_t value = *field;
    return (*this)(&value);
  }
  std::string operator()(const sim::Picoseconds* field) const { return format_time(*field); }
  std::string operator()(const double* field) const { return format_number(*field); }
  std::string operator()(const bool* field) const { return *field ? "true" : "false"; }
  std::string operator()(const std::string* field) const { return *field; }
  template <class Enum>
  requires std::is_enum_v<Enum> std::string operator()(const Enum* field) const {
    return std::string(key.choices[static_cast<std::size_t>(*field)]);
  }
};

std::string bound(const Key& key, double value) {
  switch (key.type) {
    case KeyType::kBytes:
      return format_bytes(static_cast<std::uint64_t>(value));
    case KeyType::kTime:
      return format_time(static_cast<sim::Picoseconds>(value));
    case KeyType::kRate:
      return format_rate(static_cast<std::uint64_t>(value));
    default:
      return format_number(value);
  }
}

}  // namespace

Status set_key(sim::Scenario& scenario, std::string_view name, std::string_view value) {
  if (const auto fault = fault_name(name)) {
    const FaultKey* key = find(fault_keys(), fault->key);
    if (key == nullptr) return unknown(fault_keys(), fault->key);
    if (fault->index >= kMaxFaults)
      return wrong(cat("at most ", kMaxFaults, " faults, numbered from 0"));
    if (fault->index >= scenario.faults.size()) scenario.faults.resize(fault->index + 1);
    return std::visit(Parser{*key, value}, key->field(scenario.faults[fault->index]));
  }
  const ScenarioKey* key = find(scenario_keys(), name);
  if (key == nullptr) return unknown(scenario_keys(), name);
  return std::visit(Parser{*key, value}, key->field(scenario));
}

std::string get_key(const sim::Scenario& scenario, std::string_view name) {
  // Fields are reached by pointers that can write; nothing here does.
  auto& writable = const_cast<sim::Scenario&>(scenario);
  if (const auto fault = fault_name(name)) {
    const FaultKey* key = find(fault_keys(), fault->key);
    return std::visit(Printer{*key}, key->field(writable.faults[fault->index]));
  }
  const ScenarioKey* key = find(scenario_keys(), name);
  return std::visit(Printer{*key}, key->field(writable));
}

bool is_key(std::string_view name) {
  if (const auto fault = fault_name(name)) return find(fault_keys(), fault->key) != nullptr;
  return find(scenario_keys(), name) != nullptr;
}

std::string describe_values(const Key& key) {
  const std::string range = cat(bound(key, key.lowest), " .. ", bound(key, key.highest));
  switch (key.type) {
    case KeyType::kCount:
      return cat("a whole number, ", range);
    case KeyType::kBytes:
      return cat("a size, ", range);
    case KeyType::kTime:
      return cat("a time, ", range);
    case KeyType::kRate:
      return cat("a rate, ", range);
    case KeyType::kNumber:
      return cat("a number, ", range);
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kChoice:
      return cat("one of ", list_of(key));
    case KeyType::kText:
      return "text";
  }
  return {};
}

std::vector<std::string> key_names(const sim::Scenario& scenario) {
  std::vector<std::string> names;
  for (const ScenarioKey& key : scenario_keys())
    names.emplace_back(key.name);
  for (std::size_t i = 0; i < scenario.faults.size(); ++i)
    for (const FaultKey& key : fault_keys())
      names.push_back(cat("faults[", i, "].", key.name));
  return names;
}

}  // namespace spindrift::simtool
