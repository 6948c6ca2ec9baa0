#include "plugins/nccl/comm.h"

#include <algorithm>

#include "spindrift/counter_snapshot.h"

#include "absl/strings/str_format.h"
#include "plugins/nccl/log.h"

namespace spindrift::nccl {
namespace {

constexpr std::uint32_t kPollsPerClock = 256;

}  // namespace

Comm::Comm(Context& context, Engine& engine, std::string medium)
    : context_(context), engine_(engine), medium_(std::move(medium)) {
  free_requests_.reserve(requests_.size());
  for (std::size_t i = requests_.size(); i != 0; --i)
    free_requests_.push_back(static_cast<std::uint16_t>(i - 1));
  for (Request& request : requests_)
    request.comm = this;
}

Comm::~Comm() = default;

// " (10.0.0.1 60 %, 10.1.0.1 40 %)": what each rail has carried, where there are several.
std::string Comm::rail_shares() const {
  std::vector<std::pair<std::string, std::uint64_t>> rails;
  std::uint64_t total = 0;
  for (const PathReport& path : engine_.endpoint().paths(conn_)) {
    const std::string rail = path.local_address.substr(0, path.local_address.rfind(':'));
    const auto known = std::find_if(rails.begin(), rails.end(),
                                    [&](const auto& one) { return one.first == rail; });
    if (known == rails.end())
      rails.emplace_back(rail, path.bytes_sent);
    else
      known->second += path.bytes_sent;
    total += path.bytes_sent;
  }
  if (rails.size() < 2 || total == 0) return {};
  std::string out;
  for (const auto& [rail, bytes] : rails)
    out += absl::StrFormat("%s%s %d %%", out.empty() ? " (" : ", ", rail, bytes * 100 / total);
  return out + ")";
}

void Comm::close() {
  const std::lock_guard guard(engine_);
  if (number_ == 0) return;
  // Also where the peer was first to close; what has failed was told of by a warning.
  if (has_opened_ && !is_reported_) {
    CounterSnapshot counters;
    engine_.endpoint().counters(conn_, counters);
    inform(kLogNet,
           absl::StrFormat(
               "closed the connection %s %s over %s: %d messages, %d bytes%s, %d packets "
               "sent again, %d paths went dark",
               role(), peer_, medium_, messages_, bytes_, rail_shares(),
               counters.value("retransmits_reordered") + counters.value("retransmits_timeout") +
                   counters.value("retransmits_trimmed"),
               counters.value("paths_went_bad")));
  }
  const bool is_idle = is_open() && free_requests_.size() == requests_.size();
  engine_.detach(number_, is_idle ? polite_ending() : Engine::Ending::kAbort, take_mailbox());
  number_ = 0;
}

NcclResult Comm::report() {
  if (!is_reported_) {
    is_reported_ = true;
    warn(absl::StrFormat("the connection %s %s over %s has failed: %s", role(),
                         peer_.empty() ? std::string("a peer") : peer_, medium_, why_));
  }
  return kRemoteError;
}

std::string Comm::describe() const {
  const auto info = engine_.endpoint().info(conn_);
  if (!info.ok()) return info.error().message();
  const ConnInfo& c = info.value();
  return absl::StrFormat(
      "connection %s %s over %s, from %s: %d bytes per packet, %d paths by %s, congestion control "
      "%s, CRC %s",
      role(), c.remote_address, medium_, c.local_address, c.payload_mtu, c.path_count,
      c.path_selector, c.congestion_control, c.has_crc ? "on" : "off");
}

void Comm::on_open() {
  State opening = State::kOpening;
  if (!state_.compare_exchange_strong(opening, State::kOpen)) return;
  const auto info = engine_.endpoint().info(conn_);
  if (info.ok()) peer_ = info.value().remote_address;
  has_opened_ = true;
  inform(kLogNet, describe());
}

void Comm::on_failed(const std::string& why) {
  if (is_failed()) return;
  why_ = why;
  state_.store(State::kFailed, std::memory_order_release);
}

void Comm::fail(OpStatus status) {
  if (is_failed()) return;
  std::string why = engine_.endpoint().last_error(conn_);
  if (why.empty()) {
    why = status == OpStatus::kFlushed ? std::string("the peer has closed the connection")
                                       : std::string(to_string(status));
  }
  on_failed(why);
}

bool Comm::uses(std::uint32_t registration) const {
  for (const Request& request : requests_) {
    if (!request.is_used || request.is_done.load(std::memory_order_relaxed)) continue;
    for (std::size_t i = 0; i < request.count; ++i)
      if (request.registrations[i] == registration) return true;
  }
  return false;
}

Request* Comm::take_request() {
  if (free_requests_.empty()) return nullptr;
  Request& request = requests_[free_requests_.back()];
  free_requests_.pop_back();
  request.is_used = true;
  request.is_done.store(false, std::memory_order_relaxed);
  return &request;
}

void Comm::put_back(Request& request) {
  request.is_used = false;
  free_requests_.push_back(static_cast<std::uint16_t>(index_of(request)));
}

void Comm::finish_one(Request& request) {
  if (--request.remaining != 0) return;
  request.event.stop();
  request.is_done.store(true, std::memory_order_release);
}

// Media that are reliable by themselves tell of processes that end, not of one that is stopped. A
// write of nothing must be taken in by the peer, or its silence ends the connection.
void Comm::probe_peer() {
  if (++polls_ % kPollsPerClock != 0 || engine_.has_packets() || peer_key_ == 0 || !is_open())
    return;
  const Duration interval = engine_.connect_options().keepalive;
  const Time now = engine_.endpoint().now();
  if (interval == Duration{} || now - last_probe_ < interval) return;
  last_probe_ = now;
  const WorkRequest probe{.user_data = Engine::work_tag(number_, kNobody),
                          .conn = conn_,
                          .kind = OpKind::kWrite,
                          .is_unsignaled = true,
                          .remote_key = peer_key_};
  static_cast<void>(engine_.endpoint().post(std::span(&probe, 1)));  // a full queue probes as well
}

NcclResult Comm::test(Request& request, int* done, int* sizes) {
  if (!request.is_done.load(std::memory_order_acquire) && engine_.try_lock()) {
    engine_.progress();
    after_progress();
    engine_.unlock();
  }
  // In this order: whoever runs the engine finishes requests before it sees the connection end.
  const bool is_lost = is_failed();
  if (!request.is_done.load(std::memory_order_acquire)) return is_lost ? report() : kSuccess;
  *done = 1;
  for (std::size_t i = 0; sizes != nullptr && i < request.count; ++i)
    sizes[i] = request.bytes[i];
  put_back(request);
  return kSuccess;
}

}  // namespace spindrift::nccl
