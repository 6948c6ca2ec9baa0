#include "sim/host.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace spindrift::sim {
namespace {

// Turns at one instant before an endpoint that always finds something to do is called broken.
constexpr int kMaxTurns = 100'000;
// Timers that came due while the NIC had no room are looked at again so often.
constexpr Picoseconds kBlockedInterval = 10 * kMicrosecond;

}  // namespace

Status Host::start(const SimIo::Shape& io, const EndpointConfig& config, const Registry& registry) {
  auto made = std::make_unique<SimIo>(io, network_, events_);
  medium_ = made.get();
  first_nic_ = io.first_nic;
  nics_ = io.nics;
  for (std::uint32_t k = 0; k < io.nics; ++k)
    SPINDRIFT_CHECK(made->add_rail(address_of_nic(io.first_nic + k)).ok());
  return listen(Endpoint::create(std::move(made), config, registry));
}

Status Host::start(const LaneFabric::Shape& lanes, const EndpointConfig& config,
                   const Registry& registry) {
  auto made = std::make_unique<LaneFabric>(lanes, network_, events_);
  medium_ = made.get();
  first_nic_ = lanes.first_nic;
  nics_ = lanes.nics;
  return listen(Endpoint::create(std::move(made), config, registry));
}

Status Host::listen(Result<std::unique_ptr<Endpoint>> endpoint) {
  if (!endpoint.ok()) return endpoint.error();
  address_ = "sim://";
  for (std::uint32_t k = 0; k < nics_; ++k)
    absl::StrAppend(&address_, k == 0 ? "" : ",", address_of_nic(first_nic_ + k).to_string());
  endpoint_ = std::move(endpoint).value();
  if (program_ != nullptr) return ok_status();
  const auto listener = endpoint_->listen(address_, {.backlog = 65535});
  if (!listener.ok()) return listener.error();
  return ok_status();
}

void Host::on_timer() {
  medium_->on_time();
  turn();
}

void Host::on_room() {
  medium_->on_room();
  turn();
}

void Host::turn() {
  if (is_in_turn_) {  // its own packets come back at once, or its user calls it from a completion
    wants_another_ = true;
    return;
  }
  is_in_turn_ = true;
  const Time now = to_transport_time(events_.now());
  for (int turns = 0;; ++turns) {
    SPINDRIFT_CHECK(turns < kMaxTurns);
    wants_another_ = false;
    const std::size_t count = program_ != nullptr ? (program_->turn_of(number_) ? 1 : 0) : serve();
    const bool is_over = medium_->take_is_stuck() || endpoint_->next_deadline() > now;
    if (count == 0 && !wants_another_ && is_over && !medium_->has_news()) break;
  }
  is_in_turn_ = false;
  rest();
}

// Hands what is done to the user; how much.
std::size_t Host::serve() {
  const std::size_t count = endpoint_->poll(done_);
  for (std::size_t i = 0; i < count; ++i)
    user_.on_completion(number_, done_[i]);
  if (watches_events_) [[unlikely]] {
    std::array<ConnEvent, 16> events;
    for (std::size_t n = endpoint_->poll_events(events); n != 0; n = endpoint_->poll_events(events))
      for (std::size_t i = 0; i < n; ++i)
        user_.on_conn_event(number_, events[i]);
  }
  return count;
}

void Host::rest() {
  for (std::uint32_t k = 0; k < nics_; ++k)
    if (medium_->wants_room(k)) network_.wants_free(first_nic_ + k);
  set_timer();
}

// The timer is only moved to be earlier: when it finds nothing due it is set again.
void Host::set_timer() {
  const Time deadline = endpoint_->next_deadline();
  Picoseconds due = deadline <= to_transport_time(events_.now()) ? events_.now() + kBlockedInterval
                                                                 : to_network_time(deadline);
  due = std::min(due, std::max(medium_->next_due(), events_.now()));
  if (events_.is_scheduled(actor_)) {
    if (events_.due(actor_) > due) events_.reschedule(actor_, due);
    return;
  }
  if (due != kEndOfTime) events_.schedule(actor_, due);
}

}  // namespace spindrift::sim
