#include "tools/sim/schema.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/sim/keys.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

using Json = nlohmann::ordered_json;

void append_key(std::string& out, std::string_view prefix, const Key& key, std::string_view usual) {
  append(out, prefix, key.name, "\n    ", key.help, ".\n    ", describe_values(key),
         usual.empty() ? "" : cat("; default ", usual), "\n");
}

Json schema_of(const Key& key, const std::string& usual) {
  Json out = {{"description", cat(key.help, ". ", describe_values(key))}};
  switch (key.type) {
    case KeyType::kCount:
      out["type"] = "integer";
      out["minimum"] = static_cast<std::uint64_t>(key.lowest);
      out["maximum"] = static_cast<std::uint64_t>(key.highest);
      break;
    case KeyType::kNumber:
      out["type"] = {"number", "string"};
      out["minimum"] = key.lowest;
      out["maximum"] = key.highest;
      break;
    case KeyType::kFlag:
      out["type"] = "boolean";
      break;
    case KeyType::kChoice:
      out["type"] = "string";
      out["enum"] = key.choices;
      break;
    case KeyType::kBytes:
    case KeyType::kRate:
      out["type"] = {"string", "integer"};
      break;
    case KeyType::kTime:
    case KeyType::kText:
      out["type"] = "string";
      break;
  }
  if (!usual.empty()) out["default"] = usual;
  return out;
}

Json object() {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
}

}  // namespace

std::string keys_text() {
  const sim::Scenario usual{};
  std::string out;
  for (const ScenarioKey& key : scenario_keys())
    append_key(out, "", key, get_key(usual, key.name));
  append(out, "\nOf each fault, faults[0] being the first:\n");
  const sim::Scenario one{.faults = {{}}};
  for (const FaultKey& key : fault_keys())
    append_key(out, "faults[N].", key, get_key(one, cat("faults[0].", key.name)));
  return out;
}

std::string schema_text() {
  const sim::Scenario usual{};
  Json root = object();
  root["properties"]["title"] = {{"type", "string"}};
  root["properties"]["description"] = {{"type", "string"}};
  for (const ScenarioKey& key : scenario_keys()) {
    const std::vector<std::string> parts = absl::StrSplit(std::string(key.name), '.');
    Json* at = &root;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      Json& below = (*at)["properties"][parts[i]];
      if (below.is_null()) below = object();
      at = &below;
    }
    (*at)["properties"][parts.back()] = schema_of(key, get_key(usual, key.name));
  }
  Json fault = object();
  const sim::Scenario one{.faults = {{}}};
  for (const FaultKey& key : fault_keys())
    fault["properties"][std::string(key.name)] =
        schema_of(key, get_key(one, cat("faults[0].", key.name)));
  root["properties"]["faults"] = {{"type", "array"}, {"items", fault}};
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "Scenario of the Spindrift simulator"}};
  out.update(root);
  return out.dump(2) + "\n";
}

}  // namespace spindrift::simtool
