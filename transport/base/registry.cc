#include "spindrift/registry.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include <absl/strings/str_format.h>

namespace spindrift {

namespace {

template <class Info>
const Info* find_by_name(const std::vector<Info>& all, std::string_view name) {
  for (const Info& info : all) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

template <class Infos>
std::string names_of(const Infos& all) {
  std::string names;
  for (const auto& info : all) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names.empty() ? "none" : names;
}

template <class Info>
Error unknown_name(std::string_view kind, std::string_view name, const std::vector<Info>& all) {
  return Error(ErrorCode::kNotFound, absl::StrFormat("there is no %s '%s'; choose one of: %s", kind,
                                                     name, names_of(all)));
}

std::string bounds_of(const ParameterInfo& parameter) {
  const std::string unit =
      parameter.unit.empty() ? std::string() : absl::StrFormat(" %s", parameter.unit);
  return absl::StrFormat("%g..%g%s, default %g", parameter.min, parameter.max, unit,
                         parameter.default_value);
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// "name:parameters", "file", "file:parameters", "file:name" or "file:name:parameters".
struct Spec {
  std::string_view file;  // empty: none
  std::string_view name;
  std::optional<std::string_view> parameters;
};

Spec split_spec(std::string_view text) {
  Spec out;
  std::size_t colon = text.find(':');
  if (names_file(text)) {
    out.file = text.substr(0, colon);
    text = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    colon = text.find(':');
    if (text.substr(0, colon).find('=') != std::string_view::npos) {
      out.parameters = text;
      return out;
    }
  }
  out.name = text.substr(0, colon);
  if (colon != std::string_view::npos) out.parameters = text.substr(colon + 1);
  return out;
}

Error loads_no_files(std::string_view file) {
  return Error(
      ErrorCode::kUnsupported,
      absl::StrFormat("%s is a file, and this registry loads none; use builtin_registry()", file));
}

// Reads "key=value,key=value" for one algorithm.
class ParameterReader {
 public:
  ParameterReader(const CcInfo& info, std::vector<double>& values)
      : info_(info), values_(values), is_given_(info.parameters.size(), false) {
    values_.clear();
    for (const ParameterInfo& parameter : info.parameters) {
      values_.push_back(parameter.default_value);
    }
  }

  Status read(std::string_view text) {
    while (true) {
      const std::size_t comma = text.find(',');
      Status status = read_one(text.substr(0, comma));
      if (!status.ok() || comma == std::string_view::npos) return status;
      text.remove_prefix(comma + 1);
    }
  }

 private:
  Status read_one(std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string_view::npos) {
      return Error(
          ErrorCode::kInvalidArgument,
          absl::StrFormat("%s: '%s' is no parameter; write %s:name=value,name=value with: %s",
                          info_.name, assignment, info_.name, names_of(info_.parameters)));
    }
    const std::string_view key = assignment.substr(0, equals);
    const std::string_view value = assignment.substr(equals + 1);
    if (key == "set" && !info_.sets.empty()) return assign_set(value);
    for (std::size_t i = 0; i < info_.parameters.size(); ++i) {
      if (info_.parameters[i].name == key) return assign(i, value);
    }
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("%s has no parameter '%s'; choose one of: %s%s", info_.name, key,
                                 info_.sets.empty() ? "" : "set, ", names_of(info_.parameters)));
  }

  // What is given singly counts, whether it stands before or after.
  Status assign_set(std::string_view name) {
    if (has_set_) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%s: a set is given twice; keep one of them", info_.name));
    }
    has_set_ = true;
    for (const ParameterSet& set : info_.sets) {
      if (set.name != name) continue;
      for (std::size_t i = 0; i < values_.size(); ++i) {
        if (!is_given_[i]) values_[i] = set.values[i];
      }
      return ok_status();
    }
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("%s has no set '%s'; choose one of: %s", info_.name, name,
                                 names_of(info_.sets)));
  }

  Status assign(std::size_t index, std::string_view text) {
    const ParameterInfo& parameter = info_.parameters[index];
    if (is_given_[index]) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%s: parameter %s is given twice; keep one of them", info_.name,
                                   parameter.name));
    }
    is_given_[index] = true;
    const std::optional<double> value = parse_number(text);
    if (!value || *value < parameter.min || *value > parameter.max) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%s: parameter %s cannot be '%s'; give a number in %s",
                                   info_.name, parameter.name, text, bounds_of(parameter)));
    }
    values_[index] = *value;
    return ok_status();
  }

  const CcInfo& info_;
  std::vector<double>& values_;
  std::vector<bool> is_given_;
  bool has_set_ = false;
};

}  // namespace

bool names_file(std::string_view spec) {
  const std::string_view head = spec.substr(0, spec.find(':'));
  return head.find('/') != std::string_view::npos || head.ends_with(".so");
}

Result<Registry::CcChoice> Registry::find_congestion_control(std::string_view spec) const {
  const Spec parts = split_spec(spec);
  CcChoice choice;
  if (!parts.file.empty()) {
    if (loader_ == nullptr) return loads_no_files(parts.file);
    const auto found = loader_->congestion_control(*this, parts.file, parts.name);
    if (!found.ok()) return found.error();
    choice.info = found.value();
  } else {
    choice.info = find_by_name(congestion_controls_, parts.name);
  }
  if (choice.info == nullptr) {
    return unknown_name("congestion control", parts.name, congestion_controls_);
  }
  ParameterReader reader(*choice.info, choice.values);
  if (parts.parameters) {
    const Status status = reader.read(*parts.parameters);
    if (!status.ok()) return status.error();
  }
  return choice;
}

Result<const PathSelectorInfo*> Registry::find_path_selector(std::string_view name) const {
  const Spec parts = split_spec(name);
  if (!parts.file.empty()) {
    if (loader_ == nullptr) return loads_no_files(parts.file);
    if (parts.parameters) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%s: path selectors take no parameters, but there is '%s'",
                                   parts.file, *parts.parameters));
    }
    return loader_->path_selector(*this, parts.file, parts.name);
  }
  const PathSelectorInfo* info = find_by_name(path_selectors_, name);
  if (info == nullptr) return unknown_name("path selector", name, path_selectors_);
  return info;
}

Result<const LossRuleInfo*> Registry::find_loss_rule(std::string_view name) const {
  const LossRuleInfo* info = find_by_name(loss_rules_, name);
  if (info == nullptr) return unknown_name("loss rule", name, loss_rules_);
  return info;
}

Result<const ProviderInfo*> Registry::find_provider(std::string_view scheme) const {
  const ProviderInfo* info = find_by_name(providers_, scheme);
  if (info == nullptr) return unknown_name("provider", scheme, providers_);
  return info;
}

}  // namespace spindrift
