#include "tests/explore/engine_world.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "spindrift/version.h"

#include "absl/strings/str_cat.h"
#include "tests/explore/forge.h"
#include "transport/completions.h"
#include "transport/handshake.h"

namespace spindrift::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMemoryBytes = 32768;
constexpr std::size_t kSourceBytes = 4096;  // what the other side may READ
constexpr std::size_t kCellAt = kSourceBytes;
constexpr std::size_t kFirstFree = kSourceBytes + 64;
constexpr std::uint32_t kReceiveBytes = 1200;
constexpr Duration kFlight = 2us;
constexpr std::uint8_t kStranger = 9;

std::uint8_t number_of(Side side) {
  return static_cast<std::uint8_t>(1 + static_cast<unsigned>(side));
}
std::string name_of(Side side) {
  return side == Side::kA ? "A" : "B";
}
std::byte pattern(std::size_t salt, std::size_t at) {
  return static_cast<std::byte>(1 + (salt * 37 + at * 7 + at / 251) % 255);
}
bool meets_receive(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kWriteImm;
}
bool is_atomic(OpKind kind) {
  return kind == OpKind::kFetchAdd || kind == OpKind::kCompareSwap;
}
// Different for every piece of work of both sides.
std::size_t salt_of(Side side, std::size_t index) {
  return 2 * index + static_cast<std::size_t>(side) + 3;
}

}  // namespace

WorldConfig small_world() {
  WorldConfig config;
  EndpointConfig& e = config.endpoint;
  e.max_connections = 4;
  e.max_regions = 1;
  e.completion_queue = 32;
  e.send_queue = 8;
  e.receive_queue = 8;
  e.window_packets = 128;
  e.inline_buffers = 0;
  e.max_reads = 2;
  ConnectOptions& o = config.options;
  o.congestion_control = "fixed_window";
  o.path_selector = "round_robin";
  o.path_count = 2;
  o.burst_bytes = 0;
  o.max_payload_mtu = 512;
  o.crc = CrcChoice::kOn;
  o.connect_timeout = 1s;
  o.silence_limit = 1s;
  o.silence_limit_passive = 1s;
  o.close_timeout = 100ms;
  o.rto_max = 50ms;
  return config;
}

EngineWorld::EngineWorld(const WorldConfig& config) : config_(config) {
  for (const Side side : {Side::kA, Side::kB}) {
    Node& n = node(side);
    n.memory.resize(kMemoryBytes);
    for (std::size_t i = 0; i < kSourceBytes; ++i)
      n.memory[i] = pattern(salt_of(side, 1000), i);
    n.used = kFirstFree;
    start(side);
  }
}

EngineWorld::~EngineWorld() = default;

void EngineWorld::fail(const std::string& sentence) {
  if (failure_.empty()) failure_ = sentence;
}

void EngineWorld::start(Side side) {
  Node& n = node(side);
  const std::uint64_t seed = 100 * n.incarnation + number_of(side);
  n.engine = std::make_unique<LooseEngine>(number_of(side), config_.endpoint, seed);
  n.region = n.engine->context().memory.add(n.memory, kAllAccess, {}, seed).value();
  if (side == Side::kB) n.engine->listen({.backlog = 2});
}

// --- the network -----------------------------------------------------------------------------

void EngineWorld::deliver(Side to, std::size_t index) {
  if (index >= channel(to).size()) return;
  const Datagram datagram = std::move(channel(to)[index]);
  drop(to, index);
  now_ += kFlight;
  node(to).engine->deliver(datagram, now_);
  turn(to);
}

void EngineWorld::repeat(Side to, std::size_t index) {
  if (index >= channel(to).size()) return;
  now_ += kFlight;
  node(to).engine->deliver(channel(to)[index], now_);
  turn(to);
}

void EngineWorld::drop(Side to, std::size_t index) {
  if (index < channel(to).size())
    channel(to).erase(channel(to).begin() + static_cast<std::ptrdiff_t>(index));
}

void EngineWorld::flip(Side to, std::size_t index, std::size_t byte) {
  if (index >= channel(to).size() || channel(to)[index].bytes.empty()) return;
  Bytes& bytes = channel(to)[index].bytes;
  bytes[byte % bytes.size()] ^= static_cast<std::byte>(1U << (byte / bytes.size() % 8));
}

void EngineWorld::inject(Side to, Datagram datagram) {
  channel(to).push_back(std::move(datagram));
}

bool EngineWorld::advance() {
  const Time next = std::min(node(Side::kA).engine->engine().next_deadline(),
                             node(Side::kB).engine->engine().next_deadline());
  if (next == kNever) return false;
  has_cause_ = has_cause_ || next - now_ > config_.options.silence_limit / 10;
  now_ = std::max(now_ + Duration(1), next);
  turn(Side::kA);
  turn(Side::kB);
  return true;
}

void EngineWorld::pass(Duration time) {
  has_cause_ = has_cause_ || time > config_.options.silence_limit / 10;
  now_ += time;
  turn(Side::kA);
  turn(Side::kB);
}

void EngineWorld::turn(Side side) {
  std::vector<Datagram> out;
  node(side).engine->turn(now_, out);
  for (Datagram& datagram : out) {
    if (!datagram.to.is_same_host(host_address(number_of(other(side))))) continue;
    std::deque<Datagram>& way = channel(other(side));
    if (is_lossless_ || way.size() < config_.channel_packets) way.push_back(std::move(datagram));
  }
  take(side);
  const std::string broken = broken_invariant(node(side).engine->context(), now_);
  if (!broken.empty()) fail(absl::StrCat("inside ", name_of(side), ": ", broken));
}

// --- the applications ------------------------------------------------------------------------

Connection* EngineWorld::connection(Side side) {
  return node(side).engine->context().find(node(side).conn);
}

bool EngineWorld::are_linked() {
  const Connection* a = connection(Side::kA);
  const Connection* b = connection(Side::kB);
  return a != nullptr && b != nullptr && b->peer_nonce == a->nonce;
}

// Forgets the present connection; what it still had to do ends with it.
void EngineWorld::leave(Side side) {
  Node& n = node(side);
  if (Connection* c = connection(side)) {
    n.engine->engine().abort(*c);
    turn(side);
    for (std::size_t i = 0; i < n.work.size(); ++i)
      if (!n.work[i].is_done) fail(absl::StrCat(name_of(side), "'s work ", i, " never completed"));
    const auto ends = std::count_if(n.events.begin(), n.events.end(), [](ConnEvent::Kind kind) {
      return kind == ConnEvent::Kind::kClosed || kind == ConnEvent::Kind::kFailed;
    });
    if (ends != 1) fail(absl::StrCat(name_of(side), " was told ", ends, " times of the end"));
    n.engine->engine().release(*c);
  }
  n.conn = ConnId{};
  n.work.clear();
  n.messages.clear();
  n.events.clear();
  n.received = 0;
  n.is_stale = false;
  node(other(side)).is_stale = true;
}

void EngineWorld::connect() {
  const Connection* old = connection(Side::kA);
  if (old != nullptr && !is_over(old->phase)) return;
  leave(Side::kA);
  const Connection* c =
      node(Side::kA).engine->connect(host_address(number_of(Side::kB)), config_.options, now_);
  if (c != nullptr) node(Side::kA).conn = c->id;
  turn(Side::kA);
}

Connection* EngineWorld::request_of_a() {
  for (auto& holder : node(Side::kB).engine->context().connections)
    if (holder && holder->phase == Phase::kRequested &&
        holder->remotes[0].is_same_host(host_address(number_of(Side::kA))))
      return holder.get();
  return nullptr;
}

bool EngineWorld::may_accept() const {
  return const_cast<EngineWorld*>(this)->request_of_a() != nullptr;
}

// A request of an older life of A is accepted too; it never opens, and nobody works on it.
void EngineWorld::accept() {
  Connection* request = request_of_a();
  if (request == nullptr) return;
  Node& b = node(Side::kB);
  const Connection* a = connection(Side::kA);
  const bool is_current = a != nullptr && request->peer_nonce == a->nonce;
  const ConnId id = request->id;
  if (is_current || connection(Side::kB) == nullptr) {
    leave(Side::kB);
    node(Side::kA).is_stale = false;
    b.conn = id;
  }
  static_cast<void>(accept_request(b.engine->context(), *request, config_.options, {}, now_).ok());
  turn(Side::kB);
}

void EngineWorld::reject() {
  Connection* request = request_of_a();
  if (request == nullptr) return;
  static_cast<void>(reject_request(node(Side::kB).engine->context(), *request, "not now").ok());
  turn(Side::kB);
}

bool EngineWorld::has_room(Side side, std::size_t bytes) const {
  return nodes_[static_cast<std::size_t>(side)].used + bytes + 64 <= kMemoryBytes;
}

std::size_t EngineWorld::carve(Side side, std::size_t bytes) {
  Node& n = node(side);
  const std::size_t at = n.used;
  n.used += (bytes + 63) / 64 * 64;
  return at;
}

void EngineWorld::post(Side side, OpKind kind, std::uint32_t bytes, Duration timeout) {
  Node& n = node(side);
  Node& peer = node(other(side));
  if (connection(side) == nullptr || !has_room(side, bytes) || !has_room(other(side), bytes))
    return;
  if (is_atomic(kind)) bytes = 8;
  bytes = std::min<std::uint32_t>(bytes, kReceiveBytes);
  const std::size_t index = n.work.size();
  Work work{.kind = kind, .bytes = bytes, .at = carve(side, bytes)};
  work.has_deadline = timeout != Duration{};
  has_cause_ = has_cause_ || work.has_deadline;
  work.must_succeed = must_succeed_;
  work.adds_before = n.adds_posted;
  WorkRequest request{.user_data = index, .conn = n.conn, .kind = kind};
  request.immediate = static_cast<std::uint32_t>(index);
  request.remote_key = peer.region.remote.key;
  request.operand = 1;
  request.timeout = timeout;
  if (kind == OpKind::kWrite || kind == OpKind::kWriteImm) {
    work.target = carve(other(side), bytes);
    request.remote_offset = work.target;
  } else if (is_atomic(kind)) {
    request.remote_offset = kCellAt;
  }
  if (kind != OpKind::kRead && !is_atomic(kind))
    for (std::size_t i = 0; i < bytes; ++i)
      n.memory[work.at + i] = pattern(salt_of(side, index), i);
  const Sge piece = sge_of(n.region, work.at, bytes);
  request.local = {&piece, 1};
  if (n.engine->post(request, now_).accepted == 1) {
    n.work.push_back(work);
    if (meets_receive(kind)) n.messages.push_back(index);
    if (is_atomic(kind)) ++n.adds_posted;
  } else if (must_succeed_) {
    fail(absl::StrCat(name_of(side), " cannot post though its connection is open"));
  }
  turn(side);
}

void EngineWorld::post_receive(Side side) {
  Node& n = node(side);
  if (connection(side) == nullptr || !has_room(side, kReceiveBytes)) return;
  const Work work{.kind = OpKind::kReceive, .bytes = kReceiveBytes, .at = n.used};
  const Sge piece = sge_of(n.region, work.at, kReceiveBytes);
  const WorkRequest request{
      .user_data = n.work.size(), .conn = n.conn, .kind = OpKind::kReceive, .local = {&piece, 1}};
  if (n.engine->post(request, now_).accepted == 1) {
    n.work.push_back(work);
    carve(side, kReceiveBytes);
  }
  turn(side);
}

void EngineWorld::close(Side side) {
  if (Connection* c = connection(side)) {
    has_cause_ = has_cause_ || !carries_data(c->phase);  // not open yet: that is an abort
    node(side).engine->engine().close(*c, now_);
  }
  turn(side);
}

void EngineWorld::abort(Side side) {
  has_cause_ = true;
  if (Connection* c = connection(side)) node(side).engine->engine().abort(*c);
  turn(side);
}

void EngineWorld::forget(Side side) {
  has_cause_ = true;
  Node& n = node(side);
  n.conn = ConnId{};
  leave(side);
  ++n.incarnation;
  start(side);
}

void EngineWorld::flood(std::size_t hellos) {
  for (std::size_t i = 0; i < hellos; ++i) {
    wire::Hello hello;
    hello.version_min = kWireVersionMin;
    hello.version_max = kWireVersionMax;
    hello.nonce = 1000 + ++flooded_;
    hello.payload_mtu = 512;
    hello.path_count = 1;
    hello.window_packets = 128;
    const wire::RudRequest pds{.is_syn = true, .psn = 0x12345, .spdcid = 1};
    node(Side::kB).engine->deliver(
        {.bytes = forge_hello(pds, hello), .source = host_address(kStranger)}, now_);
  }
  turn(Side::kB);
}

void EngineWorld::reject_flood() {
  for (auto& holder : node(Side::kB).engine->context().connections)
    if (holder && holder->phase == Phase::kRequested &&
        holder->remotes[0].is_same_host(host_address(kStranger)))
      static_cast<void>(
          reject_request(node(Side::kB).engine->context(), *holder, "a stranger").ok());
  turn(Side::kB);
}

void EngineWorld::describe(std::vector<std::uint64_t>& out) {
  for (const Node& n : nodes_) {
    out.insert(out.end(), {n.conn.value, n.received, n.incarnation, n.is_stale, n.events.size()});
    for (const Work& work : n.work)
      out.push_back(static_cast<std::uint64_t>(work.kind) << 8 |
                    static_cast<std::uint64_t>(work.status) << 1 | (work.is_done ? 1 : 0));
  }
}

}  // namespace spindrift::test
