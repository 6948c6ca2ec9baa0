// Connections of a LaneFabric: how they begin and end.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sim/lane_fabric.h"
#include "sim/sim_io.h"
#include "transport/base/check.h"

namespace spindrift::sim {

std::string LaneFabric::name_of(std::uint32_t host) const {
  return absl::StrCat("host", host);
}

// Names are not looked up: there is no such service in the simulated network.
Result<std::uint32_t> LaneFabric::nic_of_text(std::string_view address) const {
  const std::string text(address);
  const bool is_numeric =
      !text.empty() && text.find_first_not_of("0123456789.:") == std::string::npos;
  if (is_numeric)
    if (const auto parsed = parse_net_address(address, kDefaultPort); parsed.ok())
      for (std::uint32_t nic = 0; nic < shape_.all_nics.size(); ++nic)
        if (address_of_nic(nic).ip == parsed.value().ip) return nic;
  return Error(
      ErrorCode::kInvalidArgument,
      absl::StrCat(
          "\"", text, "\" is no NIC of the simulated network, ", address_of_nic(0).to_string(),
          " to ",
          address_of_nic(static_cast<std::uint32_t>(shape_.all_nics.size()) - 1).to_string()));
}

Status LaneFabric::check_address(std::string_view address) const {
  const auto nic = nic_of_text(address);
  return nic.ok() ? ok_status() : Status(nic.error());
}

Result<std::uint16_t> LaneFabric::add_address(std::string_view address) {
  std::uint32_t nic = shape_.first_nic;
  if (!address.empty()) {
    const auto asked = nic_of_text(address);
    if (!asked.ok()) return asked.error();
    nic = asked.value();
  }
  if (shape_.all_nics[nic].host != own_host_)
    return Error(
        ErrorCode::kInvalidArgument,
        absl::StrCat(address_of_nic(nic).to_string(), " is a NIC of ",
                     name_of(shape_.all_nics[nic].host), ", this is ", name_of(own_host_)));
  const auto known = std::find(address_nics_.begin(), address_nics_.end(), nic);
  if (known != address_nics_.end())
    return static_cast<std::uint16_t>(known - address_nics_.begin());
  address_nics_.push_back(nic);
  addresses_.push_back(address_of_nic(nic).to_string());
  return static_cast<std::uint16_t>(addresses_.size() - 1);
}

Result<LaneConnection*> LaneFabric::new_connection(std::uint32_t remote_host) {
  if (free_peers_.empty()) {
    if (peers_.size() == caps_.max_peers)
      return Error(ErrorCode::kNoMemory, absl::StrCat("all ", caps_.max_peers, " connections of ",
                                                      name_of(own_host_), " are in use"));
    free_peers_.push_back(static_cast<std::uint32_t>(peers_.size()));
    peers_.push_back(nullptr);
  }
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<std::uint32_t>(connections_.size()));
    connections_.emplace_back();
  }
  auto c = std::make_unique<Connection>();
  c->id = free_ids_.back();
  free_ids_.pop_back();
  c->number = (made_++ % (UINT32_MAX / kMostConnections)) * kMostConnections + c->id;
  c->peer = FabricPeer{free_peers_.back()};
  free_peers_.pop_back();
  c->remote_host = remote_host;
  for (std::uint16_t lane = 0; lane < shape_.lanes; ++lane)
    c->lanes.emplace_back(shape_.lane, lane);
  c->lanes.emplace_back(shape_.lane, kControlLane);
  Connection* const out = c.get();
  peers_[out->peer.value] = out;
  connections_[out->id] = std::move(c);
  return out;
}

Result<FabricPeer> LaneFabric::connect(std::string_view address, std::span<const std::byte> hello,
                                       std::uint16_t lanes) {
  const auto nic = nic_of_text(address);
  if (!nic.ok()) return nic.error();
  const auto made = new_connection(shape_.all_nics[nic.value()].host);
  if (!made.ok()) return made.error();
  Connection& c = *made.value();
  c.lanes_wanted = lanes;
  c.control_nic = (nic.value() - host_nics_[c.remote_host]) % shape_.nics;
  push_control(c, LaneMessageKind::kCall, hello);
  pump();
  return c.peer;
}

void LaneFabric::on_call(Connection& c, const LaneMessage& message) {
  events_out_.push_back({.kind = FabricEvent::Kind::kRequest,
                         .peer = c.peer,
                         .address = c.called,
                         .hello = message.payload});
}

Status LaneFabric::accept(FabricPeer peer, std::span<const std::byte> hello, std::uint16_t lanes) {
  Connection& c = of(peer);
  c.lanes_wanted = lanes;
  if (c.is_gone)
    return Error(ErrorCode::kUnavailable, absl::StrCat("the caller has gone: ", c.cause));
  c.phase = Connection::Phase::kAnswered;
  push_control(c, LaneMessageKind::kAnswer, hello);
  pump();
  return ok_status();
}

void LaneFabric::refuse(FabricPeer peer, std::span<const std::byte> hello) {
  Connection& c = of(peer);
  push_control(c, LaneMessageKind::kRefuse, hello);
  detach(c);
  pump();
}

void LaneFabric::on_answer(Connection& c, LaneMessage& message) {
  if (c.phase != Connection::Phase::kCalling || c.is_detached) return;
  FabricEvent event{
      .kind = FabricEvent::Kind::kRefused, .peer = c.peer, .hello = std::move(message.payload)};
  if (message.kind == LaneMessageKind::kRefuse) {
    c.is_gone = true;
    c.is_gone_told = true;
  } else {
    event.kind = FabricEvent::Kind::kAccepted;
    c.phase = Connection::Phase::kOpen;
    push_control(c, LaneMessageKind::kConfirm, {});
  }
  events_out_.push_back(std::move(event));
}

void LaneFabric::drop(FabricPeer peer) {
  Connection& c = of(peer);
  // Nothing of the old owner's is told of the number's next one.
  std::erase_if(events_out_, [&](const FabricEvent& event) { return event.peer == peer; });
  std::erase_if(reads_done_, [&](const ReadDone& done) { return done.peer == peer; });
  std::erase_if(lane_news_, [&](const LaneNews& news) { return news.peer == peer; });
  if (c.is_gone) {
    if (!c.is_gone_told) --gone_untold_;
    detach(c);
    remove_detached();
    return;
  }
  LaneMessage farewell{
      .kind = LaneMessageKind::kFarewell, .lane = kControlLane, .number = c.posted++};
  push(c, lane_for(c, kControlLane), std::move(farewell));
  detach(c);
  pump();
}

// Its number is free at once; what is under way goes on.
void LaneFabric::detach(Connection& c) {
  c.is_detached = true;
  has_detached_ = true;
  peers_[c.peer.value] = nullptr;
  free_peers_.push_back(c.peer.value);
  c.reads.clear();
  c.arrived.clear();
  c.held = 0;
}

void LaneFabric::remove_detached() {
  has_detached_ = false;
  for (const auto& holder : connections_) {
    if (!holder || !holder->is_detached) continue;
    Connection& c = *holder;
    const auto is_quiet = [&c](const LaneEnd& lane) {
      return !lane.owes_ack && (c.is_gone || lane.out.is_empty());
    };
    if (std::all_of(c.lanes.begin(), c.lanes.end(), is_quiet))
      forget(c);
    else
      has_detached_ = true;
  }
}

void LaneFabric::forget(Connection& c) {
  for (NicQueue& nic : nics_) {
    std::erase_if(nic.acks, [&](const LaneRef& one) { return one.connection == &c; });
    std::erase_if(nic.data, [&](const LaneRef& one) { return one.connection == &c; });
  }
  for (const LaneEnd& lane : c.lanes)
    resent_before_ += lane.out.resent();
  std::erase_if(called_, [&](const auto& one) { return one.second == c.id; });
  free_ids_.push_back(c.id);
  connections_[c.id].reset();
}

void LaneFabric::lose(Connection& c, std::string cause) {
  if (c.is_gone) return;
  c.is_gone = true;
  c.cause = std::move(cause);
  for (LaneEnd& lane : c.lanes)
    static_cast<void>(lane.out.take_back());
  if (c.is_detached) {
    has_detached_ = true;
    return;
  }
  if (c.phase == Connection::Phase::kCalling) {
    c.is_gone_told = true;
    events_out_.push_back({.kind = FabricEvent::Kind::kRefused, .peer = c.peer, .cause = c.cause});
    return;
  }
  ++gone_untold_;
  c.read_error = absl::StrCat(name_of(c.remote_host), " is gone: ", c.cause);
  for (const auto& [number, read] : c.reads)
    reads_done_.push_back({.peer = c.peer,
                           .tag = read.tag,
                           .lane = read.lane,
                           .fault = FabricCompletion::Fault::kLost});
  c.reads.clear();
}

std::string LaneFabric::describe_peer(FabricPeer peer) const {
  return name_of(of(peer).remote_host);
}

std::size_t LaneFabric::poll_events(std::span<FabricEvent> out) {
  if (gone_untold_ != 0)
    for (Connection* c : peers_) {
      if (c == nullptr || !c->is_gone || c->is_gone_told) continue;
      if (c->phase == Connection::Phase::kOpen && c->held != c->arrived.size()) continue;
      c->is_gone_told = true;
      --gone_untold_;
      events_out_.push_back({.kind = FabricEvent::Kind::kGone, .peer = c->peer, .cause = c->cause});
    }
  std::size_t count = 0;
  for (; count < out.size() && !events_out_.empty(); ++count) {
    out[count] = std::move(events_out_.front());
    events_out_.pop_front();
  }
  return count;
}

}  // namespace spindrift::sim
