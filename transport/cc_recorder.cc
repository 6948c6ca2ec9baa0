#include "transport/cc_recorder.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spindrift {
namespace {

std::int64_t ns(Time time) {
  return time.time_since_epoch().count();
}

std::string limits_text(const SendLimits& limits) {
  return absl::StrFormat(R"("window_bytes":%d,"credit_bytes":%d,"rate_bps":%d,"timer_ns":%d)",
                         limits.window_bytes, limits.credit_bytes,
                         limits.pacing_rate.bits_per_second(), ns(limits.timer));
}

struct EventText {
  std::string operator()(const AckEvent& e) const {
    return absl::StrFormat(
        R"("event":"ack","now_ns":%d,"sent_ns":%d,"rtt_ns":%d,"acked_bytes":%d,)"
        R"("received_bytes":%d,"in_flight_bytes":%d,"acked_packets":%d,)"
        R"("out_of_order_packets":%d,"receiver_penalty":%d,"restores_window":%d,"is_marked":%d,)"
        R"("delivered_bytes":%d,"interval_ns":%d,"is_app_limited":%d)",
        ns(e.now), ns(e.sent_time), e.rtt.count(), e.acked_bytes, e.received_bytes,
        e.in_flight_bytes, e.acked_packets, e.out_of_order_packets, e.receiver_penalty,
        int{e.restores_window}, int{e.is_marked}, e.delivery.delivered_bytes,
        e.delivery.interval.count(), int{e.delivery.is_app_limited});
  }
  std::string operator()(const LossEvent& e) const {
    return absl::StrFormat(
        R"("event":"loss","now_ns":%d,"newest_sent_ns":%d,"lost_bytes":%d,"in_flight_bytes":%d,)"
        R"("lost_packets":%d,"cause":%d)",
        ns(e.now), ns(e.newest_sent_time), e.lost_bytes, e.in_flight_bytes, e.lost_packets,
        static_cast<int>(e.cause));
  }
  std::string operator()(const CongestionNotification& /*cnp*/) const {
    return R"("event":"notification")";
  }
  std::string operator()(const CreditGranted& e) const {
    return absl::StrFormat(R"("event":"credit","granted_bytes":%d)", e.credit_bytes);
  }
  std::string operator()(const TimerFired& /*timer*/) const { return R"("event":"timer")"; }
  std::string operator()(const PathChanged& e) const {
    return absl::StrFormat(R"("event":"path","base_rtt_ns":%d,"link_rate_bps":%d)",
                           e.base_rtt.count(), e.link_rate.bits_per_second());
  }
  std::string operator()(const LossWasSpurious& e) const {
    return absl::StrFormat(R"("event":"spurious","bytes":%d)", e.bytes);
  }
};

int open_record(const std::string& file) {
  return open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

// False: errno says why not all of it was written.
bool append_to(const std::string& file, const std::string& text) {
  const int fd = open_record(file);
  if (fd < 0) return false;
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t written = write(fd, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  const int error = errno;
  close(fd);
  errno = error;
  return at == text.size();
}

}  // namespace

Status CcRecorder::check(const std::string& file) {
  if (file.empty()) return ok_status();
  const int fd = open_record(file);
  if (fd < 0)
    return Error(ErrorCode::kIo, absl::StrCat("cc_record: cannot write to ", file, ": ",
                                              std::system_category().message(errno)));
  close(fd);
  return ok_status();
}

CcRecorder::CcRecorder(std::unique_ptr<CongestionControl> recorded,
                       const Registry::CcChoice& choice, const FlowInfo& flow, std::string file)
    : recorded_(std::move(recorded)),
      choice_(choice),
      flow_(flow),
      file_(std::move(file)),
      initial_(recorded_->initial()) {}

CcRecorder::~CcRecorder() {
  std::string text = head();
  for (const Entry& entry : entries_)
    text += line(entry);
  // Nobody is left to return an error to.
  if (!append_to(file_, text))
    absl::FPrintF(stderr,
                  "spindrift: cc_record: %s is incomplete: %s; write it where there is room\n",
                  file_, std::system_category().message(errno));
}

SendLimits CcRecorder::on_ack(const AckEvent& event) {
  Entry entry{.event = event, .limits = recorded_->on_ack(event)};
  std::get<AckEvent>(entry.event).telemetry = {};  // it names memory of the packet
  return keep(std::move(entry));
}
SendLimits CcRecorder::on_loss(const LossEvent& event) {
  return keep({.event = event, .limits = recorded_->on_loss(event)});
}
SendLimits CcRecorder::on_signal(Time now, const Signal& signal) {
  return keep({.event = TimedSignal{.now = now, .signal = signal},
               .limits = recorded_->on_signal(now, signal)});
}

SendLimits CcRecorder::keep(Entry entry) {
  const SendLimits limits = entry.limits;
  if (entries_.size() < kMaxEvents)
    entries_.push_back(std::move(entry));
  else
    ++left_out_;
  return limits;
}

std::string CcRecorder::head() const {
  std::string parameters;
  for (std::size_t i = 0; i < choice_.values.size(); ++i)
    absl::StrAppendFormat(&parameters, R"(%s"%s":%.17g)", i == 0 ? "" : ",",
                          choice_.info->parameters[i].name, choice_.values[i]);
  return absl::StrFormat(
      R"({"event":"flow","version":1,"algorithm":"%s","parameters":{%s},"now_ns":%d,)"
      R"("base_rtt_ns":%d,"host_latency_ns":%d,"link_rate_bps":%d,"mtu_bytes":%d,)"
      R"("max_window_bytes":%d,"events":%d,"left_out":%d,%s})"
      "\n",
      choice_.info->name, parameters, ns(flow_.now), flow_.base_rtt.count(),
      flow_.host_latency.count(), flow_.link_rate.bits_per_second(), flow_.mtu_bytes,
      flow_.max_window_bytes, entries_.size(), left_out_, limits_text(initial_));
}

std::string CcRecorder::line(const Entry& entry) {
  std::string text;
  if (const auto* timed = std::get_if<TimedSignal>(&entry.event)) {
    text = absl::StrCat(std::visit(EventText{}, timed->signal), ",\"now_ns\":", ns(timed->now));
  } else if (const auto* ack = std::get_if<AckEvent>(&entry.event)) {
    text = EventText{}(*ack);
  } else {
    text = EventText{}(std::get<LossEvent>(entry.event));
  }
  return absl::StrCat("{", text, ",", limits_text(entry.limits), "}\n");
}

}  // namespace spindrift
