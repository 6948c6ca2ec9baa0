#include "tools/perf/bandwidth.h"

#include "absl/strings/str_format.h"

namespace spindrift::perf {

BandwidthRun::BandwidthRun(Session& session, const RunRequest& run, Side side)
    : session_(session), side_(side), receiver_(session, run) {
  if (side == Side::kClient || session.shape().is_bidirectional) sender_.emplace(session, run);
  receiver_.fill_sources();
  session_.sink = this;
}

void BandwidthRun::on_completions(std::span<const Completion> completions) {
  bool has_receives = false;
  for (const Completion& completion : completions) {
    if (tag_of(completion.user_data) == WorkTag::kReceive) {
      receiver_.on_receive_completed(completion);
      has_receives = true;
    } else if (sender_) {
      sender_->on_request_completed(completion);
    }
  }
  if (has_receives) receiver_.repost();
}

Status BandwidthRun::execute(const std::function<bool()>& is_interrupted,
                             const std::function<void(const BandwidthMeter&)>& on_progress) {
  if (sender_) sender_->start(session_.endpoint().now());
  bool was_interrupted = false;
  while (!session_.has_failed()) {
    const Time now = session_.endpoint().now();
    if (sender_) {
      sender_->count_batch(now);
      sender_->post(now);
      if (on_progress) on_progress(sender_->meter());
    }
    if (is_interrupted && !was_interrupted && is_interrupted()) {
      was_interrupted = true;
      sender_->stop();
      if (!has_told_) session_.control().send({{"type", "stop"}});
    }
    take_messages();
    receiver_.answer_checks();
    if (tell_when_done()) return ok_status();
    session_.turn();
    session_.ping_when_idle();
  }
  return session_.failure();
}

void BandwidthRun::take_messages() {
  nlohmann::json message;
  while (session_.take_message(&message))
    on_message(message);
}

void BandwidthRun::on_message(const nlohmann::json& message) {
  const std::string type = text_or(message, "type", "");
  if (type == "check") {
    receiver_.on_check(message);
  } else if (type == "checked" && sender_) {
    sender_->on_checked(message);
  } else if (type == "stop" && side_ == Side::kServer) {
    if (sender_) sender_->stop();
  } else if (type == "sent" && side_ == Side::kServer) {
    note_announced(message);
  } else if (type == "result" && side_ == Side::kClient) {
    note_announced(message);
    const std::string error = text_or(message, "error", "");
    if (!error.empty()) session_.fail("verification failed at the server: " + error);
    const auto summary = message.find("summary");
    if (summary == message.end()) return;
    const Result<BandwidthSummary> parsed = parse_bandwidth(*summary);
    if (parsed.ok()) peer_summary_ = parsed.value();
  } else {
    session_.fail(absl::StrFormat("%s sent '%s' in the middle of a run", session_.peer_name, type));
  }
}

void BandwidthRun::note_announced(const nlohmann::json& message) {
  const auto posted = message.find("posted");
  for (std::uint32_t i = 0; i < session_.shape().connections; ++i) {
    const bool is_known = posted != message.end() && posted->is_array() && i < posted->size() &&
                          (*posted)[i].is_number_unsigned();
    announced_.push_back(is_known ? (*posted)[i].get<std::uint64_t>() : 0);
  }
}

nlohmann::json BandwidthRun::posted() const {
  nlohmann::json counts = nlohmann::json::array();
  for (std::uint32_t i = 0; i < session_.shape().connections; ++i) {
    counts.push_back(sender_ ? sender_->posted(i) : 0);
  }
  return counts;
}

bool BandwidthRun::has_received_all() const {
  if (announced_.empty()) return false;
  if (!uses_receives(session_.shape().operation)) return true;
  for (std::uint32_t i = 0; i < announced_.size(); ++i) {
    if (receiver_.received(i) < announced_[i]) return false;
  }
  return true;
}

// True when this side has nothing left to do.
bool BandwidthRun::tell_when_done() {
  const bool has_sent = !sender_ || sender_->is_done();
  if (side_ == Side::kClient) {
    if (has_sent && !has_told_) {
      session_.control().send({{"type", "sent"}, {"posted", posted()}});
      has_told_ = true;
    }
    if (!has_received_all()) return false;
    if (!receiver_.error().empty()) session_.fail("verification failed: " + receiver_.error());
    return !session_.has_failed();
  }
  if (!has_sent || !has_received_all()) return false;
  nlohmann::json result = {{"type", "result"}, {"posted", posted()}};
  if (sender_) result["summary"] = to_json(sender_->meter().summary());
  if (!receiver_.error().empty()) result["error"] = receiver_.error();
  session_.control().send(result);
  return true;
}

BandwidthSummary BandwidthRun::summary() const {
  return sum_of(sender_->meter().summary(), peer_summary_);
}

}  // namespace spindrift::perf
