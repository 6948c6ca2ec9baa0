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
  io_ = made.get();
  first_nic_ = io.first_nic;
  nics_ = io.nics;
  address_ = "sim://";
  for (std::uint32_t k = 0; k < io.nics; ++k) {
    const NetAddress address = address_of_nic(io.first_nic + k);
    SPINDRIFT_CHECK(made->add_rail(address).ok());
    absl::StrAppend(&address_, k == 0 ? "" : ",", address.to_string());
  }
  auto endpoint = Endpoint::create(std::move(made), config, registry);
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  const auto listener = endpoint_->listen(address_, {.backlog = 65535});
  if (!listener.ok()) return listener.error();
  return ok_status();
}

void Host::turn() {
  if (is_in_turn_) {  // its own packets come back at once, or its user calls it from a completion
    wants_another_ = true;
    return;
  }
  is_in_turn_ = true;
  const Time now = to_transport_time(events_.now());
  bool is_blocked = false;
  for (int turns = 0;; ++turns) {
    SPINDRIFT_CHECK(turns < kMaxTurns);
    wants_another_ = false;
    const std::size_t count = endpoint_->poll(done_);
    for (std::size_t i = 0; i < count; ++i)
      user_.on_completion(number_, done_[i]);
    if (watches_events_) [[unlikely]] {
      std::array<ConnEvent, 16> events;
      for (std::size_t n = endpoint_->poll_events(events); n != 0;
           n = endpoint_->poll_events(events))
        for (std::size_t i = 0; i < n; ++i)
          user_.on_conn_event(number_, events[i]);
    }
    is_blocked = io_->take_wants_room();
    if (count == 0 && !wants_another_ && (is_blocked || endpoint_->next_deadline() > now)) break;
  }
  is_in_turn_ = false;
  if (is_blocked) ask_for_room();
  set_timer();
}

void Host::ask_for_room() {
  for (std::uint32_t k = 0; k < nics_; ++k)
    network_.wants_free(first_nic_ + k);
}

// The timer is only moved to be earlier: when it finds nothing due it is set again.
void Host::set_timer() {
  const Time deadline = endpoint_->next_deadline();
  const Picoseconds due = deadline <= to_transport_time(events_.now())
                              ? events_.now() + kBlockedInterval
                              : to_network_time(deadline);
  if (events_.is_scheduled(actor_)) {
    if (events_.due(actor_) > due) events_.reschedule(actor_, due);
    return;
  }
  if (due != kEndOfTime) events_.schedule(actor_, due);
}

}  // namespace spindrift::sim
