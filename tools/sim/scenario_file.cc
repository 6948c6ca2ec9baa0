#include "tools/sim/scenario_file.h"

#include <filesystem>
#include <sstream>
#include <vector>

#include <toml++/toml.h>

#include "absl/strings/str_join.h"
#include "tools/sim/keys.h"
#include "tools/sim/quantities.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

Error wrong(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

class Reader {
 public:
  Reader(std::string_view name, std::string_view folder) : name_(name), folder_(folder) {}

  void table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table)
      read(node, cat(prefix, std::string_view(key.str())), at(key.source().begin.line));
  }
  Result<ScenarioFile> finish() {
    if (!errors_.empty()) return wrong(absl::StrJoin(errors_, "\n"));
    return std::move(file_);
  }

 private:
  std::string at(toml::source_index line) const { return cat(name_, ":", line); }

  void read(const toml::node& node, const std::string& key, const std::string& where) {
    if (const toml::table* below = node.as_table()) {
      table(*below, key + ".");
    } else if (const toml::array* list = node.as_array()) {
      read_list(*list, key, where);
    } else if (key == "title" || key == "description") {
      (key == "title" ? file_.title : file_.description) = text_of(node);
    } else {
      set(key, text_of(node), where);
    }
  }
  void read_list(const toml::array& list, const std::string& key, const std::string& where) {
    if (key != "faults") {
      errors_.push_back(cat(where, ": ", key, " is a list; only [[faults]] is one"));
      return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const toml::table* fault = list.get_as<toml::table>(i);
      if (fault == nullptr)
        errors_.push_back(cat(where, ": a fault is a table: [[faults]]"));
      else
        table(*fault, cat("faults[", i, "]."));
    }
  }
  void set(const std::string& key, std::string value, const std::string& where) {
    if (key.ends_with(".file") && !folder_.empty() && !std::filesystem::path(value).is_absolute() &&
        !value.empty())
      value = (std::filesystem::path(folder_) / value).string();
    const Status status = set_key(file_.scenario, key, value);
    if (!status.ok()) errors_.push_back(cat(where, ": ", key, ": ", status.error().message()));
    file_.origins[key] = where;
  }
  static std::string text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    if (const auto* whole = node.as_integer()) return cat(whole->get());
    if (const auto* number = node.as_floating_point()) return format_number(number->get());
    return "a date";  // no key takes one
  }

  std::string name_;
  std::string folder_;
  ScenarioFile file_;
  std::vector<std::string> errors_;
};

std::string toml_string(std::string_view text) {
  const toml::value<std::string> value{std::string(text)};
  std::ostringstream out;
  out << toml::node_view<const toml::node>(&value);
  return out.str();
}

// As TOML writes it: numbers and flags bare, the rest in quotes.
std::string toml_value(const Key& key, const std::string& text) {
  const bool is_bare =
      key.type == KeyType::kCount || key.type == KeyType::kNumber || key.type == KeyType::kFlag;
  return is_bare ? text : toml_string(text);
}

std::string origin_of(const ScenarioFile& file, std::string_view key) {
  // A complaint may be about a whole part.
  for (std::string_view name = key; !name.empty();) {
    const auto found = file.origins.find(name);
    if (found != file.origins.end()) return found->second;
    const std::size_t dot = name.rfind('.');
    name = dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
  }
  return "default";
}

}  // namespace

Result<ScenarioFile> parse_scenario(std::string_view text, std::string_view name,
                                    std::string_view folder) {
  try {
    const toml::table parsed = toml::parse(text, name);
    Reader reader(name, folder);
    reader.table(parsed, "");
    return reader.finish();
  } catch (const toml::parse_error& error) {
    return wrong(cat(name, ":", error.source().begin.line, ": ", std::string(error.description())));
  }
}

std::string to_toml(const ScenarioFile& file) {
  const sim::Scenario usual{};
  std::string out;
  if (!file.title.empty()) append(out, "title = ", toml_string(file.title), "\n");
  if (!file.description.empty()) append(out, "description = ", toml_string(file.description), "\n");
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string value = get_key(file.scenario, key.name);
    if (value == get_key(usual, key.name)) continue;
    append(out, key.name, " = ", toml_value(key, value), "\n");
  }
  const sim::Scenario one_fault{.faults = {{}}};
  for (std::size_t i = 0; i < file.scenario.faults.size(); ++i) {
    append(out, "\n[[faults]]\n");
    for (const FaultKey& key : fault_keys()) {
      const std::string value = get_key(file.scenario, cat("faults[", i, "].", key.name));
      if (key.name != "kind" && value == get_key(one_fault, cat("faults[0].", key.name))) continue;
      append(out, key.name, " = ", toml_value(key, value), "\n");
    }
  }
  return out;
}

Status apply_override(ScenarioFile& file, std::string_view assignment, std::string_view origin) {
  const std::size_t sign = assignment.find('=');
  if (sign == std::string_view::npos || sign == 0)
    return wrong(cat(origin, " ", assignment, ": write it as key=value"));
  const std::string_view key = assignment.substr(0, sign);
  const Status status = set_key(file.scenario, key, assignment.substr(sign + 1));
  if (!status.ok()) return wrong(cat(origin, " ", key, ": ", status.error().message()));
  file.origins.insert_or_assign(std::string(key), std::string(origin));
  return ok_status();
}

std::string sentences(const ScenarioFile& file, const std::vector<sim::Complaint>& complaints) {
  std::vector<std::string> lines;
  for (const sim::Complaint& one : complaints) {
    const std::string value = is_key(one.key) ? get_key(file.scenario, one.key) : one.value;
    lines.push_back(cat(origin_of(file, one.key), ": ", one.key, " is ", value, ": ", one.limit));
  }
  return absl::StrJoin(lines, "\n");
}

Status check(const ScenarioFile& file) {
  const std::vector<sim::Complaint> complaints = sim::validate(file.scenario);
  if (complaints.empty()) return ok_status();
  return wrong(sentences(file, complaints));
}

}  // namespace spindrift::simtool
