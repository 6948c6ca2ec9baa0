#include "transport/base/trace_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace spindrift {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kPhases[] = {"connecting", "requested", "accepting", "open",
                                        "draining",   "closing",   "closed",    "failed"};
constexpr std::string_view kPathStates[] = {"good", "skip", "bad", "denied"};
constexpr std::string_view kStatuses[] = {"ok",
                                          "timed_out",
                                          "peer_gone",
                                          "remote_key",
                                          "remote_access",
                                          "remote_bounds",
                                          "remote_alignment",
                                          "remote_length",
                                          "remote_unsupported",
                                          "local_length",
                                          "flushed"};
constexpr std::string_view kRefusals[] = {"malformed", "crc", "stranger", "wrong_source",
                                          "out_of_window"};
constexpr std::string_view kLosses[] = {"reordered", "trimmed", "trimmed_last_hop", "timeout"};

constexpr std::array<TraceKindInfo, kTraceKinds> kKinds = {{
    {.name = "state", .cause_name = "state", .causes = kPhases},
    {.name = "timeout", .first_name = "in_row", .second_name = "rto_ns"},
    {.name = "path", .has_path = true, .cause_name = "state", .causes = kPathStates},
    {.name = "completion_error",
     .cause_name = "status",
     .causes = kStatuses,
     .first_name = "user_data"},
    {.name = "refused", .cause_name = "cause", .causes = kRefusals, .first_name = "bytes"},
    {.name = "loss",
     .has_path = true,
     .cause_name = "cause",
     .causes = kLosses,
     .first_name = "psn",
     .second_name = "transmissions"},
    {.name = "spurious", .has_path = true, .first_name = "psn", .second_name = "transmissions"},
    {.name = "retransmit", .has_path = true, .first_name = "psn", .second_name = "transmissions"},
    {.name = "probe_sent", .has_path = true, .first_name = "probe"},
    {.name = "probe_answered", .has_path = true, .first_name = "probe", .second_name = "rtt_ns"},
    {.name = "nack_sent", .first_name = "psn", .second_name = "code"},
    {.name = "nack_received", .first_name = "psn", .second_name = "code"},
    {.name = "limits", .first_name = "window_bytes", .second_name = "rate_bps"},
    {.name = "packet_sent", .has_path = true, .first_name = "psn", .second_name = "bytes"},
    {.name = "packet_received", .first_name = "psn", .second_name = "bytes"},
    {.name = "ack_received", .first_name = "psn", .second_name = "rtt_ns"},
}};

// Appends to a line that is known to be long enough.
class Line {
 public:
  explicit Line(std::span<char, kMaxTraceLine> out) : out_(out) {}
  void text(std::string_view part) {
    const std::size_t count = std::min(part.size(), out_.size() - at_);
    std::copy_n(part.data(), count, out_.data() + at_);
    at_ += count;
  }
  void number(std::string_view name, std::uint64_t value) {
    key(name);
    char* end = out_.data() + out_.size();
    at_ = static_cast<std::size_t>(std::to_chars(out_.data() + at_, end, value).ptr - out_.data());
  }
  void name(std::string_view name, std::string_view value) {
    key(name);
    text("\"");
    text(value);
    text("\"");
  }
  std::size_t end() {
    text("}\n");
    return at_;
  }

 private:
  void key(std::string_view name) {
    text(at_ == 0 ? "{\"" : ",\"");
    text(name);
    text("\":");
  }
  std::span<char, kMaxTraceLine> out_;
  std::size_t at_ = 0;
};

std::string_view name_at(Names names, std::size_t index) {
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace

const TraceKindInfo& trace_kind_info(TraceKind kind) {
  // An event torn by a second thread may name any kind.
  return kKinds[std::min(static_cast<std::size_t>(kind), kKinds.size() - 1)];
}

std::size_t format_trace_line(const TraceEvent& event, std::span<char, kMaxTraceLine> out) {
  const TraceKindInfo& info = trace_kind_info(event.kind);
  Line line(out);
  line.number("t_ns", static_cast<std::uint64_t>(event.at.time_since_epoch().count()));
  line.name("event", info.name);
  line.number("conn", event.conn.value);
  if (info.has_path) line.number("path", event.path);
  if (!info.cause_name.empty()) line.name(info.cause_name, name_at(info.causes, event.cause));
  if (!info.first_name.empty()) line.number(info.first_name, event.first);
  if (!info.second_name.empty()) line.number(info.second_name, event.second);
  return line.end();
}

std::size_t format_trace_line(const TraceHeader& header, std::span<char, kMaxTraceLine> out) {
  Line line(out);
  line.name("event", "recorder");
  line.number("process", header.process);
  line.number("level", header.level);
  line.number("events", header.events);
  line.number("overwritten", header.overwritten);
  return line.end();
}

std::string to_json(const TraceEvent& event) {
  std::array<char, kMaxTraceLine> line{};
  return {line.data(), format_trace_line(event, line) - 1};
}

}  // namespace spindrift
