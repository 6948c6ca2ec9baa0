#include "tools/sim/replay.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "tools/sim/quantities.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

using Json = nlohmann::json;

Time time_of(const Json& line, const char* name) {
  return Time(Duration(line.at(name).get<std::int64_t>()));
}
Duration duration_of(const Json& line, const char* name) {
  return Duration(line.at(name).get<std::int64_t>());
}
std::uint64_t count_of(const Json& line, const char* name) {
  return line.at(name).get<std::uint64_t>();
}
template <class T>
T small_of(const Json& line, const char* name, std::uint64_t most) {
  const std::uint64_t value = count_of(line, name);
  if (value > most) throw std::range_error(cat(name, " is ", value, ", more than ", most));
  return static_cast<T>(value);
}

SendLimits limits_of(const Json& line) {
  return {.window_bytes = count_of(line, "window_bytes"),
          .credit_bytes = count_of(line, "credit_bytes"),
          .pacing_rate = Rate::bits_per_second(count_of(line, "rate_bps")),
          .timer = time_of(line, "timer_ns")};
}

AckEvent ack_of(const Json& line) {
  AckEvent event;
  event.now = time_of(line, "now_ns");
  event.sent_time = time_of(line, "sent_ns");
  event.rtt = duration_of(line, "rtt_ns");
  event.acked_bytes = count_of(line, "acked_bytes");
  event.received_bytes = count_of(line, "received_bytes");
  event.in_flight_bytes = count_of(line, "in_flight_bytes");
  event.acked_packets = small_of<std::uint32_t>(line, "acked_packets", UINT32_MAX);
  event.out_of_order_packets = small_of<std::uint32_t>(line, "out_of_order_packets", UINT32_MAX);
  event.receiver_penalty = small_of<std::uint8_t>(line, "receiver_penalty", UINT8_MAX);
  event.restores_window = count_of(line, "restores_window") != 0;
  event.is_marked = count_of(line, "is_marked") != 0;
  event.delivery = {.delivered_bytes = count_of(line, "delivered_bytes"),
                    .interval = duration_of(line, "interval_ns"),
                    .is_app_limited = count_of(line, "is_app_limited") != 0};
  return event;
}

LossEvent loss_of(const Json& line) {
  LossEvent event;
  event.now = time_of(line, "now_ns");
  event.newest_sent_time = time_of(line, "newest_sent_ns");
  event.lost_bytes = count_of(line, "lost_bytes");
  event.in_flight_bytes = count_of(line, "in_flight_bytes");
  event.lost_packets = small_of<std::uint32_t>(line, "lost_packets", UINT32_MAX);
  event.cause = small_of<LossCause>(line, "cause", static_cast<int>(LossCause::kTimeout));
  return event;
}

Signal signal_of(const std::string& kind, const Json& line) {
  if (kind == "notification") return CongestionNotification{};
  if (kind == "credit") return CreditGranted{count_of(line, "granted_bytes")};
  if (kind == "timer") return TimerFired{};
  if (kind == "path")
    return PathChanged{.base_rtt = duration_of(line, "base_rtt_ns"),
                       .link_rate = Rate::bits_per_second(count_of(line, "link_rate_bps"))};
  if (kind == "spurious") return LossWasSpurious{count_of(line, "bytes")};
  throw std::domain_error(cat("there is no event '", kind, "'"));
}

Recording flow_of(const Json& line) {
  if (count_of(line, "version") != 1)
    throw std::domain_error("it was written in another version of the format");
  Recording out;
  out.algorithm = line.at("algorithm").get<std::string>();
  out.spec = out.algorithm;
  char separator = ':';
  for (const auto& [name, value] : line.at("parameters").items()) {
    append(out.spec, std::string(1, separator), name, "=", format_number(value.get<double>()));
    separator = ',';
  }
  out.flow = {.now = time_of(line, "now_ns"),
              .base_rtt = duration_of(line, "base_rtt_ns"),
              .host_latency = duration_of(line, "host_latency_ns"),
              .link_rate = Rate::bits_per_second(count_of(line, "link_rate_bps")),
              .mtu_bytes = small_of<std::uint32_t>(line, "mtu_bytes", UINT32_MAX),
              .max_window_bytes = count_of(line, "max_window_bytes")};
  out.initial = limits_of(line);
  out.left_out = count_of(line, "left_out");
  out.announced = count_of(line, "events");
  return out;
}

void add_line(const Json& line, std::vector<Recording>& out) {
  const auto kind = line.at("event").get<std::string>();
  if (kind == "flow") {
    out.push_back(flow_of(line));
    return;
  }
  if (out.empty()) throw std::domain_error("no flow has begun before this event");
  RecordedEvent event{.limits = limits_of(line)};
  if (kind == "ack")
    event.event = ack_of(line);
  else if (kind == "loss")
    event.event = loss_of(line);
  else
    event.event = RecordedSignal{.now = time_of(line, "now_ns"), .signal = signal_of(kind, line)};
  out.back().events.push_back(std::move(event));
}

struct Feed {
  CongestionControl& algorithm;
  SendLimits operator()(const AckEvent& event) const { return algorithm.on_ack(event); }
  SendLimits operator()(const LossEvent& event) const { return algorithm.on_loss(event); }
  SendLimits operator()(const RecordedSignal& event) const {
    return algorithm.on_signal(event.now, event.signal);
  }
};

std::int64_t now_ns(const RecordedEvent& one) {
  return std::visit([](const auto& event) { return event.now.time_since_epoch().count(); },
                    one.event);
}

std::string limits_text(const SendLimits& limits) {
  const auto bytes = [](std::uint64_t value) {
    return value == kNoLimit ? std::string("none") : std::to_string(value);
  };
  return absl::StrFormat("window %s B, credit %s B, rate %d b/s, timer %d ns",
                         bytes(limits.window_bytes), bytes(limits.credit_bytes),
                         limits.pacing_rate.bits_per_second(),
                         limits.timer.time_since_epoch().count());
}

}  // namespace

Result<std::vector<Recording>> parse_recordings(std::string_view text, std::string_view name) {
  std::vector<Recording> out;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    try {
      add_line(Json::parse(line), out);
    } catch (const std::exception& error) {
      return Error(ErrorCode::kInvalidArgument,
                   cat(name, ":", number, ": this is no line of a record: ", error.what()));
    }
  }
  if (out.empty())
    return Error(ErrorCode::kInvalidArgument,
                 cat(name,
                     " holds no record; 'spindrift sim --record FILE' makes one, and "
                     "SPINDRIFT_CC_RECORD=FILE one of any program"));
  return out;
}

Result<Replay> replay(const Recording& recording, const Registry& registry,
                      const std::string& spec) {
  const auto choice = registry.find_congestion_control(spec.empty() ? recording.spec : spec);
  if (!choice.ok()) return choice.error();
  const auto algorithm = choice.value().info->create(recording.flow, choice.value().values);
  if (algorithm == nullptr)
    return Error(ErrorCode::kUnavailable, "the algorithm's plug-in makes no instance");
  Replay out;
  out.starts_equal = algorithm->initial() == recording.initial;
  out.decisions.reserve(recording.events.size());
  for (const RecordedEvent& one : recording.events) {
    out.decisions.push_back(std::visit(Feed{*algorithm}, one.event));
    if (out.decisions.back() == one.limits)
      ++out.equal;
    else if (!out.first_difference)
      out.first_difference = out.decisions.size() - 1;
  }
  return out;
}

std::string replay_text(const std::vector<Recording>& recordings,
                        const std::vector<Replay>& replays) {
  std::string out = "connection  recorded      events     equal  same start  first difference\n";
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const Recording& recording = recordings[i];
    const Replay& one = replays[i];
    absl::StrAppendFormat(&out, "%-10d  %-12s  %6d  %8d  %10s  ", i + 1, recording.algorithm,
                          recording.events.size(), one.equal, one.starts_equal ? "yes" : "no");
    if (!one.first_difference) {
      append(out, "none\n");
      continue;
    }
    const std::size_t at = *one.first_difference;
    append(out, "event ", at + 1, "\n    recorded: ", limits_text(recording.events[at].limits),
           "\n    replayed: ", limits_text(one.decisions[at]), "\n");
  }
  for (std::size_t i = 0; i < recordings.size(); ++i)
    if (recordings[i].left_out != 0)
      append(out, "Connection ", i + 1, " had ", recordings[i].left_out,
             " more events than a record keeps.\n");
  for (std::size_t i = 0; i < recordings.size(); ++i)
    if (recordings[i].announced != recordings[i].events.size())
      append(out, "Connection ", i + 1, "'s record is cut short: ", recordings[i].events.size(),
             " of ", recordings[i].announced, " events are there.\n");
  return out;
}

std::string replay_csv(const std::vector<Recording>& recordings,
                       const std::vector<Replay>& replays) {
  std::string out =
      "connection,now_ns,recorded_window_bytes,recorded_credit_bytes,recorded_rate_bps,"
      "recorded_timer_ns,window_bytes,credit_bytes,rate_bps,timer_ns\n";
  const auto add = [&out](const SendLimits& limits) {
    absl::StrAppendFormat(&out, ",%d,%d,%d,%d", limits.window_bytes, limits.credit_bytes,
                          limits.pacing_rate.bits_per_second(),
                          limits.timer.time_since_epoch().count());
  };
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    for (std::size_t k = 0; k < recordings[i].events.size(); ++k) {
      absl::StrAppendFormat(&out, "%d,%d", i + 1, now_ns(recordings[i].events[k]));
      add(recordings[i].events[k].limits);
      add(replays[i].decisions[k]);
      out.push_back('\n');
    }
  }
  return out;
}

}  // namespace spindrift::simtool
