// Queue pairs of the verbs fabric: made, tried out, given up, and made anew.
#include <algorithm>
#include <array>
#include <cstring>

#include <sys/timerfd.h>

#include "providers/verbs/flow_label.h"
#include "providers/verbs/verbs_fabric.h"
#include "providers/verbs/verbs_trouble.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

// A device that does not give back what it had by then has lost it.
constexpr Duration kLongestEnding = std::chrono::seconds(2);
constexpr Duration kTimer = std::chrono::milliseconds(10);
constexpr std::uint32_t kIndexBits = 16;
constexpr std::uint32_t kLabelStep = 977;
constexpr std::uint64_t kLastProbe = 1;

std::uint32_t label_of(const VerbsPeer& peer, std::uint16_t number, std::uint32_t generation) {
  return flow_label(peer.nonce + std::uint64_t{generation} * kLabelStep,
                    std::min<std::size_t>(number, kMaxVerbsLanes));
}

std::string host_text(const GidBytes& gid) {
  std::string text = address_of(gid).to_string();
  text.resize(text.rfind(':'));
  return text;
}

}  // namespace

std::uint32_t VerbsFabric::name_pair(VerbsPeer& peer, std::uint16_t lane) {
  std::uint32_t index = 0;
  if (!free_owners_.empty()) {
    index = free_owners_.back();
    free_owners_.pop_back();
  } else {
    index = static_cast<std::uint32_t>(owners_.size());
    owners_.emplace_back();
  }
  const std::uint32_t number = index | (++pairs_named_ << kIndexBits);
  owners_[index] = {.peer = &peer, .lane = lane, .number = number};
  return number;
}

void VerbsFabric::forget_pair(VerbsLane& lane) {
  PairOwner* owner = nullptr;
  if (find(lane.number, owner) == nullptr) return;
  owner->peer = nullptr;
  free_owners_.push_back(lane.number & ((1U << kIndexBits) - 1));
}

VerbsLane* VerbsFabric::find(std::uint32_t number, PairOwner*& owner) {
  const std::uint32_t index = number & ((1U << kIndexBits) - 1);
  if (index >= owners_.size()) return nullptr;
  owner = &owners_[index];
  if (owner->peer == nullptr || owner->number != number) return nullptr;
  return &owner->peer->lane(owner->lane);
}

Status VerbsFabric::make_pair(VerbsPeer& peer, std::uint16_t number) {
  VerbsLane& lane = peer.lane(number);
  const bool is_messages = number == kVerbsMessageLane;
  lane.number = name_pair(peer, number);
  QueuePairNeeds needs = peer.messages.needs();
  if (!is_messages)
    needs = {.sends = 2 * options_.reads,
             .receives = 0,
             .inline_bytes = 0,
             .pieces = caps_.max_read_local,
             .reads_answered = reads_answered_};
  const Status made =
      lane.pair.make(*ports_[lane.port], *queues_[lane.port], options_, needs, lane.number);
  if (!made.ok()) {
    lane.pair.destroy();
    forget_pair(lane);
    return made;
  }
  lane.state = VerbsLane::State::kTrying;
  if (is_messages) peer.messages.begin(lane);
  return made;
}

Status VerbsFabric::connect_pair(VerbsPeer& peer, std::uint16_t number,
                                 const QueuePairCard& theirs) {
  VerbsLane& lane = peer.lane(number);
  const VerbsPort& port = *ports_[lane.port];
  PathTo path{.port = peer.port_of(number), .queue_pair = theirs};
  path.mtu = std::min(port.mtu(), mtu_bytes(path.port.mtu));
  if (!port.is_infiniband()) path.flow_label = label_of(peer, number, lane.generation);
  path.reads = static_cast<std::uint8_t>(
      std::min({std::max<std::uint32_t>(peer.theirs.reads_answered, 1), options_.reads,
                static_cast<std::uint32_t>(std::max(port.device().max_qp_init_rd_atom, 1))}));
  if (number == kVerbsMessageLane) path.reads = 1;
  return lane.pair.connect(path, lane.port == 0 ? peer.own_gid : port.gid().entry.gid);
}

// As many bytes as the largest packet carries, there and back.
void VerbsFabric::post_probe(VerbsPeer& peer, std::uint16_t number, bool writes_first) {
  VerbsLane& lane = peer.lane(number);
  VerbsPage& page = peer.messages.page();
  const PortCard& theirs = peer.port_of(number);
  const std::uint32_t bytes = std::min(ports_[lane.port]->mtu(), mtu_bytes(theirs.mtu));
  if (writes_first) {
    for (std::size_t i = 0; i < page.probe.size(); ++i)
      page.probe[i] = static_cast<std::byte>(i * 131 + peer.nonce);
    page.answer.fill(std::byte{0});
  }
  const std::uint32_t key = peer.messages.page_registrations().local_key(lane.port);
  std::array<ibv_sge, 2> pieces{
      {{.addr = reinterpret_cast<std::uintptr_t>(page.probe.data()), .length = bytes, .lkey = key},
       {.addr = reinterpret_cast<std::uintptr_t>(page.answer.data()),
        .length = bytes,
        .lkey = key}}};
  std::array<ibv_send_wr, 2> requests{};
  for (std::size_t i = writes_first ? 0 : 1; i < requests.size(); ++i) {
    ibv_send_wr& one = requests[i];
    one.wr_id = lane.pair.id_of(0);
    one.sg_list = &pieces[i];
    one.num_sge = 1;
    one.opcode = i == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    one.send_flags = i == 0 ? 0U : static_cast<unsigned>(IBV_SEND_SIGNALED);
    one.wr.rdma.remote_addr = peer.theirs.page + offsetof(VerbsPage, probe);
    one.wr.rdma.rkey = theirs.page_key;
    if (i == 0) one.next = &requests[1];
    lane.pair.note({.kind = PostedWork::Kind::kProbe, .tag = i == 0 ? 0 : kLastProbe});
  }
  if (lane.pair.post(&requests[writes_first ? 0 : 1]) != 0) lane.pair.fail();
}

void VerbsFabric::on_probed(VerbsPeer& peer, std::uint16_t number, bool is_ok) {
  VerbsLane& lane = peer.lane(number);
  if (peer.phase == VerbsPeer::Phase::kProbing) {
    const VerbsPage& page = peer.messages.page();
    const std::uint32_t bytes =
        std::min(ports_[lane.port]->mtu(), mtu_bytes(peer.port_of(number).mtu));
    if (!is_ok ||
        !std::equal(page.answer.begin(), page.answer.begin() + bytes, page.probe.begin())) {
      give_up(peer, "packets of " + std::to_string(bytes) +
                        " bytes do not get there and back: " + describe(peer, number) +
                        ". Where the network carries less, say mtu=1024 on one side");
      return;
    }
    say(peer, encode(VerbsFrameKind::kConfirm, std::span<const std::byte>()));
    if (!peer.is_gone) on_confirmed(peer);
    return;
  }
  if (!is_ok || lane.state != VerbsLane::State::kTrying) return;
  const std::uint32_t room = lane.renewal ? lane.renewal->room : 0;
  say(peer, encode(VerbsFrameKind::kReady, lane_card(peer, number)));
  bring_up(peer, number, room);
}

std::string VerbsFabric::describe(const VerbsPeer& peer, std::uint16_t number) const {
  const bool is_messages = number == kVerbsMessageLane;
  const VerbsLane& lane = is_messages ? peer.messages.lane : peer.lanes[number];
  const VerbsPort& port = *ports_[lane.port];
  std::string out = is_messages ? "the lane of messages" : "lane " + std::to_string(number);
  out += " (" + port.describe() + ", queue pair " + std::to_string(lane.pair.card().number) + ", " +
         host_text(peer.own_gid) + " to " + host_text(peer.port_of(number).gid);
  if (!port.is_infiniband())
    out += ", UDP source port " +
           std::to_string(kFirstSourcePort + label_of(peer, number, lane.generation));
  if (!lane.trouble.empty()) out += ", down: " + lane.trouble;
  return out + ")";
}

std::string VerbsFabric::describe_lane(FabricPeer id, std::uint16_t lane) const {
  const VerbsPeer& peer = *peers_[id.value];
  return lane < peer.lanes.size() ? describe(peer, lane) : "lane " + std::to_string(lane);
}

void VerbsFabric::put_down(VerbsPeer& peer, std::uint16_t number) {
  VerbsLane& lane = peer.lane(number);
  ++lanes_lost_;
  ++troubles_;
  turns_to_look_ = 1;
  if (number == kVerbsMessageLane) return;  // what it had is sent again
  lane.is_told_down = true;
  ended_.push_back(
      {.kind = FabricCompletion::Kind::kLane, .lane = number, .is_ok = false, .peer = peer.id});
}

void VerbsFabric::fail_lane(VerbsPeer& peer, std::uint16_t number, const std::string& why) {
  VerbsLane& lane = peer.lane(number);
  if (lane.state == VerbsLane::State::kEnding || lane.state == VerbsLane::State::kDown) return;
  const bool was_up = lane.is_up();
  lane.state = VerbsLane::State::kEnding;
  lane.ending_since = now();
  lane.trouble = why;
  lane.pair.fail();
  if (!peer.is_dropped) {
    peer.read_error = peer.who + " by " + describe(peer, number);
    if (peer.is_open() && was_up) put_down(peer, number);
  }
}

// Nothing of its queue pair is under way any more.
void VerbsFabric::on_ended(VerbsPeer& peer, std::uint16_t number) {
  VerbsLane& lane = peer.lane(number);
  lane.pair.destroy();
  forget_pair(lane);
  lane.state = VerbsLane::State::kDown;
  if (peer.is_dropped || peer.is_gone || !peer.is_open()) return;
  if (peer.has_called) {
    lane.retry_at = now() + lane.pause;
    lane.pause = std::min(2 * lane.pause, VerbsLane::kLongestPause);
    return;
  }
  if (lane.renewal && lane.renewal->generation > lane.generation)
    answer_renewal(peer, number);
  else
    say(peer, encode(VerbsFrameKind::kBroken, lane_card(peer, number)));
}

LaneCard VerbsFabric::lane_card(VerbsPeer& peer, std::uint16_t number) const {
  const VerbsLane& lane = peer.lane(number);
  LaneCard card{.lane = number, .generation = lane.generation};
  if (lane.pair.exists()) card.queue_pair = lane.pair.card();
  card.gid = peer.own_gid;
  if (number == kVerbsMessageLane) card.room = peer.messages.posted();
  return card;
}

// Ours to begin: we called.
void VerbsFabric::renew(VerbsPeer& peer, std::uint16_t number) {
  VerbsLane& lane = peer.lane(number);
  lane.retry_at = now() + lane.pause;
  if (!ports_[lane.port]->is_active()) {
    lane.trouble = ports_[lane.port]->describe() + " is down";
    return;
  }
  ++lane.generation;
  lane.renewal.reset();
  if (const Status made = make_pair(peer, number); !made.ok()) {
    lane.trouble = made.error().message();
    return;
  }
  say(peer, encode(VerbsFrameKind::kRenew, lane_card(peer, number)));
}

void VerbsFabric::on_renew(VerbsPeer& peer, const LaneCard& card) {
  VerbsLane& lane = peer.lane(card.lane);
  if (card.generation <= lane.generation) return;
  lane.renewal = card;
  if (lane.state == VerbsLane::State::kDown)
    answer_renewal(peer, card.lane);
  else
    fail_lane(peer, card.lane, "the peer's end failed");
}

void VerbsFabric::answer_renewal(VerbsPeer& peer, std::uint16_t number) {
  VerbsLane& lane = peer.lane(number);
  lane.generation = lane.renewal->generation;
  Status status = make_pair(peer, number);
  if (status.ok()) status = connect_pair(peer, number, lane.renewal->queue_pair);
  if (status.ok()) {
    say(peer, encode(VerbsFrameKind::kRenewed, lane_card(peer, number)));
    return;
  }
  fail_lane(peer, number, status.error().message());  // says BROKEN when it has ended
  if (!lane.pair.exists() || lane.pair.is_idle()) on_ended(peer, number);
}

void VerbsFabric::on_renewed(VerbsPeer& peer, const LaneCard& card) {
  VerbsLane& lane = peer.lane(card.lane);
  if (lane.state != VerbsLane::State::kTrying || card.generation != lane.generation) return;
  lane.renewal = card;
  if (const Status status = connect_pair(peer, card.lane, card.queue_pair); !status.ok()) {
    fail_lane(peer, card.lane, status.error().message());
    if (lane.pair.is_idle()) on_ended(peer, card.lane);
    return;
  }
  post_probe(peer, card.lane, false);
}

void VerbsFabric::on_lane_card(VerbsPeer& peer, VerbsFrameKind kind, const LaneCard& card) {
  const bool is_message_lane = card.lane == kVerbsMessageLane;
  const bool is_in_turn =
      peer.has_called == (kind == VerbsFrameKind::kBroken || kind == VerbsFrameKind::kRenewed);
  if ((!is_message_lane && card.lane >= peer.lanes.size()) || !is_in_turn) {
    ++nonsense_;
    lose(peer, "it said by TCP what does not belong there");
    return;
  }
  VerbsLane& lane = peer.lane(card.lane);
  switch (kind) {
    case VerbsFrameKind::kBroken:
      if (card.generation == lane.generation) {
        fail_lane(peer, card.lane, "the peer's end failed");
        if (lane.state == VerbsLane::State::kEnding && lane.pair.is_idle())
          on_ended(peer, card.lane);
      }
      return;
    case VerbsFrameKind::kRenew:
      on_renew(peer, card);
      if (lane.state == VerbsLane::State::kEnding && lane.pair.is_idle()) on_ended(peer, card.lane);
      return;
    case VerbsFrameKind::kRenewed:
      on_renewed(peer, card);
      return;
    default:
      if (lane.state == VerbsLane::State::kTrying && card.generation == lane.generation)
        bring_up(peer, card.lane, lane.renewal ? lane.renewal->room : 0);
      return;
  }
}

void VerbsFabric::bring_up(VerbsPeer& peer, std::uint16_t number, std::uint32_t room) {
  VerbsLane& lane = peer.lane(number);
  ++lanes_mended_;
  --troubles_;
  lane.pause = VerbsLane::kFirstPause;
  lane.trouble.clear();
  if (number == kVerbsMessageLane) {
    peer.messages.start(room);
    return;
  }
  lane.state = VerbsLane::State::kUp;
  if (!lane.is_told_down) return;
  lane.is_told_down = false;
  ended_.push_back({.kind = FabricCompletion::Kind::kLane, .lane = number, .peer = peer.id});
}

template <class Each>
void VerbsFabric::for_each_lane(Each each) {
  for (VerbsPeer* const peer : open_peers_) {
    for (std::size_t i = 0; i < peer->lanes.size(); ++i)
      each(*peer, static_cast<std::uint16_t>(i));
    each(*peer, kVerbsMessageLane);
  }
}

void VerbsFabric::mend(Time when) {
  for_each_lane([this, when](VerbsPeer& peer, std::uint16_t number) {
    VerbsLane& lane = peer.lane(number);
    if (lane.state == VerbsLane::State::kDown && peer.has_called && !peer.is_gone &&
        when >= lane.retry_at)
      renew(peer, number);
    if (lane.state != VerbsLane::State::kEnding) return;
    if (when - lane.ending_since > kLongestEnding) {
      lane.pair.destroy();  // after which nothing of it can land
      while (lane.pair.under_way() != 0)
        end_request(peer, number, lane.pair.end_next(), IBV_WC_WR_FLUSH_ERR);
      if (number == kVerbsMessageLane) peer.messages.take_back_buffers();
      on_ended(peer, number);
    } else if (lane.pair.is_idle()) {
      on_ended(peer, number);
    }
  });
}

void VerbsFabric::set_timer() {
  itimerspec when{};
  if (troubles_ != 0 || !dropped_.empty() || opening_ != 0)
    when.it_value.tv_nsec = std::chrono::nanoseconds(kTimer).count();
  static_cast<void>(::timerfd_settime(timer_.get(), 0, &when, nullptr));
}

void VerbsFabric::on_port_event(std::size_t port, bool is_up, const std::string& what) {
  for_each_lane([&](VerbsPeer& peer, std::uint16_t number) {
    VerbsLane& lane = peer.lane(number);
    if (lane.port != port) return;
    if (is_up)
      lane.retry_at = {};
    else if (lane.is_up())
      fail_lane(peer, number, what);
  });
}

void VerbsFabric::fail_pair(const ibv_qp* pair, const std::string& what) {
  for_each_lane([&](VerbsPeer& peer, std::uint16_t number) {
    if (peer.lane(number).pair.is(pair)) fail_lane(peer, number, what);
  });
}

void VerbsFabric::take_device_events(std::size_t port) {
  const VerbsPort& one = *ports_[port];
  ibv_async_event event{};
  while (ibv_get_async_event(one.context(), &event) == 0) {
    const std::string what = one.describe() + " says: " + ibv_event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_PORT_ERR:
        if (event.element.port_num == one.number()) on_port_event(port, false, what);
        break;
      case IBV_EVENT_PORT_ACTIVE:
        if (event.element.port_num == one.number()) on_port_event(port, true, what);
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        fail_pair(event.element.qp, what);
        break;
      case IBV_EVENT_DEVICE_FATAL:
        on_port_event(port, false, what);
        break;
      case IBV_EVENT_GID_CHANGE:
      case IBV_EVENT_LID_CHANGE:
        if (!one.index_of(one.gid().entry.gid)) on_port_event(port, false, what);
        break;
      default:
        break;
    }
    ibv_ack_async_event(&event);
  }
}

void VerbsFabric::break_lane(FabricPeer id, std::uint16_t lane) {
  fail_lane(*peers_[id.value], lane, "a test broke it");
}

}  // namespace spindrift
