#include "tools/trace_command.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "spindrift/trace.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/exit_codes.h"
#include "tools/trace/trace_text.h"

namespace spindrift::tools {
namespace {

constexpr const char* kFooter = R"(
EXAMPLES
  spindrift perf local --fault loss=1% --trace t.jsonl     then
  spindrift trace t.jsonl --summary                        what became of each connection
  spindrift trace t.jsonl --event loss --event path        a time line of these events
  spindrift trace /tmp/spindrift-crash-4711.jsonl          what led to a failed internal check
  kill -USR2 PID                                           a running perf or coll writes one

TRACES
  The flight recorder of an endpoint keeps its last events (SPINDRIFT_TRACE_EVENTS,
  SPINDRIFT_TRACE_LEVEL). It is written as JSON lines by --trace of perf and coll, to the file that
  SPINDRIFT_TRACE names, on SIGUSR2, and when an internal check fails. docs/TRACE.md lists every
  event and member.

EXIT CODES
  0 done; 1 the file cannot be read or is no trace; 2 wrong arguments)";

struct TraceArguments {
  std::string file;
  std::optional<std::uint64_t> conn{};
  std::optional<std::uint64_t> path{};
  std::vector<std::string> events{};
  bool has_summary = false;
};

// Empty, or the one that no recorder writes.
std::string unknown_event(const std::vector<std::string>& events) {
  for (const std::string& event : events) {
    bool is_known = false;
    for (std::size_t i = 0; i < kTraceKinds; ++i)
      is_known = is_known || trace_kind_info(static_cast<TraceKind>(i)).name == event;
    if (!is_known) return event;
  }
  return {};
}

std::string known_events() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kTraceKinds; ++i)
    names.emplace_back(trace_kind_info(static_cast<TraceKind>(i)).name);
  return absl::StrJoin(names, ", ");
}

std::string cannot_read(const std::string& file) {
  return absl::StrFormat("cannot read %s: %s", file,
                         std::system_category().message(errno == 0 ? EIO : errno));
}

int run_trace(const TraceArguments& arguments) {
  if (const std::string event = unknown_event(arguments.events); !event.empty()) {
    return complain("trace",
                    absl::StrFormat("there is no event '%s'; there are: %s", event, known_events()),
                    kExitUsage);
  }
  errno = 0;
  std::ifstream opened;
  if (arguments.file != "-") opened.open(arguments.file);
  const bool is_file = arguments.file != "-";
  std::istream& in = is_file ? opened : std::cin;
  const auto sections = read_trace(in);
  if ((is_file && !opened.is_open()) || in.bad())
    return complain("trace", cannot_read(arguments.file), kExitFailure);
  if (!sections.ok()) {
    return complain("trace", arguments.file + ": " + sections.error().message(), kExitFailure);
  }
  const TraceFilter filter{.conn = arguments.conn,
                           .path = arguments.path,
                           .events = {arguments.events.begin(), arguments.events.end()}};
  for (const TraceSection& section : sections.value()) {
    if (!arguments.has_summary) absl::PrintF("%s", format_time_line(section, filter));
    absl::PrintF("%s", format_summary(section, filter));
  }
  if (sections.value().empty()) absl::PrintF("%s holds no events\n", arguments.file);
  return finish_output("trace", kExitOk);
}

class TraceCommand final : public CLI::App {
 public:
  explicit TraceCommand(int& exit_code)
      : CLI::App("Show what a flight recorder has written: a time line, and a summary", "trace") {
    footer(kFooter);
    add_option("file", arguments_.file, "a trace; - for standard input")->required();
    add_option("--conn", arguments_.conn, "only this connection; 0: the endpoint's own events");
    add_option("--path", arguments_.path, "only events of this path");
    add_option("--event", arguments_.events, "only this event; may be given several times")
        ->allow_extra_args(false);
    add_flag("--summary", arguments_.has_summary, "only the summary of each connection");
    callback([this, &exit_code] { exit_code = run_trace(arguments_); });
  }

 private:
  TraceArguments arguments_;
};

}  // namespace

void register_trace(CLI::App& app, int& exit_code) {
  app.add_subcommand(std::make_shared<TraceCommand>(exit_code));
}

}  // namespace spindrift::tools
