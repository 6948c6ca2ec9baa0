#pragma once
// What a scenario file may hold: as a list for people and as JSON Schema for editors.
#include <string>

namespace spindrift::simtool {

// Every key with its values, default and meaning.
std::string keys_text();
// docs/scenario.schema.json.
std::string schema_text();

}  // namespace spindrift::simtool
