#include "tools/trace/trace_reader.h"

#include "absl/strings/str_format.h"

namespace spindrift::tools {
namespace {

using Json = nlohmann::ordered_json;

bool has_number(const Json& line, const char* key) {
  return line.contains(key) && line[key].is_number_unsigned();
}

std::uint64_t number_of(const Json& line, const char* key) {
  return has_number(line, key) ? line[key].get<std::uint64_t>() : 0;
}

std::string text_of(const Json& line, const char* key) {
  return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : "";
}

// False: no line of a trace, or one before any section.
bool take(const Json& line, std::vector<TraceSection>& sections) {
  const std::string event = text_of(line, "event");
  if (event == "recorder") {
    sections.push_back({.process = number_of(line, "process"),
                        .level = number_of(line, "level"),
                        .overwritten = number_of(line, "overwritten")});
    return true;
  }
  if (event.empty() || sections.empty() || !has_number(line, "conn")) return false;
  if (event == "connection") {
    sections.back().connections[number_of(line, "conn")] = {.peer = text_of(line, "peer"),
                                                            .error = text_of(line, "error")};
    return true;
  }
  if (!has_number(line, "t_ns")) return false;
  sections.back().events.push_back(line);
  return true;
}

}  // namespace

Result<std::vector<TraceSection>> read_trace(std::istream& in) {
  std::vector<TraceSection> sections;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !take(line, sections)) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("line %d is no line of a trace: %.60s", number, text));
    }
  }
  return sections;
}

}  // namespace spindrift::tools
