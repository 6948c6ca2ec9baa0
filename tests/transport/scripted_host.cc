#include "tests/transport/scripted_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace spindrift::test {
namespace {

constexpr std::uint32_t kMaxPeers = 4096;
constexpr std::uint32_t kMaxPayload = 16384;
constexpr std::uint32_t kMaxHeld = 64;
constexpr std::size_t kMaxAddress = 64;

}  // namespace

ScriptedFabric::ScriptedFabric(ScriptedNet& net, std::uint32_t number)
    : net_(net), number_(number) {
  const ScriptedOptions& options = net.options_;
  caps_.name = "scripted";
  caps_.max_peers = kMaxPeers;
  caps_.max_payload_bytes = kMaxPayload;
  caps_.max_read_bytes = options.is_read ? options.max_read_bytes : 0;
  caps_.read_from_bytes = options.read_from_bytes;
  caps_.max_read_local = options.max_read_local;
  caps_.max_read_remote = options.max_read_remote;
  caps_.max_held = kMaxHeld;
  caps_.max_lanes = options.lanes;
  caps_.link_rate = options.link_rate;
}

ScriptedFabric::~ScriptedFabric() {
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].pair != nullptr) drop(FabricPeer{i});
  for (const auto& pair : net_.pairs_)
    for (End& end : pair->ends)
      if (end.host == this) end.host = nullptr;  // called, and not heard of yet
  std::erase_if(net_.names_, [this](const auto& one) { return one.second.first == number_; });
  net_.hosts_[number_] = nullptr;
}

Result<std::uint16_t> ScriptedFabric::add_address(std::string_view address) {
  std::string name(address);
  if (name.empty()) name = absl::StrCat("h", number_, "-", names_.size());
  const Status checked = check_address(name);
  if (!checked.ok()) return checked.error();
  const auto index = static_cast<std::uint16_t>(names_.size());
  if (!net_.names_.try_emplace(name, number_, index).second)
    return Error(ErrorCode::kUnavailable, name + " is taken");
  names_.push_back(name);
  return index;
}

Status ScriptedFabric::check_address(std::string_view address) const {
  if (!address.empty() && address.size() <= kMaxAddress) return ok_status();
  return Error(
      ErrorCode::kInvalidArgument,
      absl::StrCat("\"", std::string(address), "\" is no name of 1 to ", kMaxAddress, " letters"));
}

Result<FabricPeer> ScriptedFabric::connect(std::string_view address,
                                           std::span<const std::byte> hello, std::uint16_t lanes) {
  const auto found = net_.names_.find(address);
  if (found == net_.names_.end())
    return Error(ErrorCode::kUnavailable, absl::StrCat("nobody is called ", std::string(address)));
  const auto number = static_cast<std::uint32_t>(net_.pairs_.size());
  net_.pairs_.push_back(std::make_unique<Pair>(net_.options_));
  Pair& pair = *net_.pairs_.back();
  End& own = pair.ends[0];
  own.host = this;
  own.lanes_wanted = lanes;
  own.hello.assign(hello.begin(), hello.end());
  own.peer = take_number({.pair = &pair, .number = number, .side = 0});
  pair.ends[1].host = net_.hosts_[found->second.first];
  pair.ends[1].address = found->second.second;
  tell(number, 1, Kind::kCall);
  return own.peer;
}

Status ScriptedFabric::accept(FabricPeer peer, std::span<const std::byte> hello,
                              std::uint16_t lanes) {
  const Ref ref = peers_[peer.value];
  if (own(ref).is_gone) return Error(ErrorCode::kUnavailable, "the caller has gone");
  own(ref).lanes_wanted = lanes;
  own(ref).hello.assign(hello.begin(), hello.end());
  ref.pair->lanes = std::min({own(ref).lanes_wanted, other(ref).lanes_wanted, caps_.max_lanes});
  tell(ref.number, 1 - ref.side, Kind::kAnswer);
  return ok_status();
}

void ScriptedFabric::refuse(FabricPeer peer, std::span<const std::byte> hello) {
  const Ref ref = peers_[peer.value];
  own(ref).hello.assign(hello.begin(), hello.end());
  tell(ref.number, 1 - ref.side, Kind::kRefuse);
  forget(peer);
}

void ScriptedFabric::drop(FabricPeer peer) {
  const Ref ref = peers_[peer.value];
  std::erase_if(events_, [&](const FabricEvent& event) { return event.peer == peer; });
  tell(ref.number, 1 - ref.side, Kind::kFarewell);
  // Neither side's reads land any more.
  for (std::uint16_t lane = 0; lane < ref.pair->lanes; ++lane)
    net_.lose_reads(*ref.pair, lane);
  forget(peer);
}

std::string ScriptedFabric::describe_peer(FabricPeer peer) const {
  const Ref& ref = peers_[peer.value];
  const ScriptedFabric* host = other(ref).host;
  return host == nullptr ? "a host that is no more" : absl::StrCat("host ", host->number_);
}

ScriptedFabric::Reach ScriptedFabric::reach(FabricPeer peer) const {
  return {.reads_peer = net_.options_.is_read,
          .is_read_by_peer = net_.options_.is_read,
          .lanes = peers_[peer.value].pair->lanes};
}

std::string ScriptedFabric::describe_lane(FabricPeer /*peer*/, std::uint16_t lane) const {
  return absl::StrCat("lane ", lane, " (port ", lane % 2,
                      net_.is_up(lane) ? ")" : ", down: its cable was pulled)");
}

std::size_t ScriptedFabric::poll_events(std::span<FabricEvent> out) {
  for (const Ref& ref : peers_) {
    if (ref.pair == nullptr) continue;
    End& end = own(ref);
    const bool has_more =
        end.is_open && (end.polled != end.arrived || end.status.words != end.seen.words);
    if (!end.is_gone || end.is_gone_told || has_more) continue;
    end.is_gone_told = true;
    events_.push_back({.kind = FabricEvent::Kind::kGone,
                       .peer = end.peer,
                       .cause = absl::StrCat("host ", number_, " was hung up on")});
  }
  std::size_t count = 0;
  for (; count < out.size() && !events_.empty(); ++count) {
    out[count] = std::move(events_.front());
    events_.pop_front();
  }
  return count;
}

Status ScriptedFabric::add_region(LocalKey region, std::span<std::byte> bytes) {
  regions_[region.value] = bytes;
  return ok_status();
}

Status ScriptedFabric::add_device_region(LocalKey region, std::span<std::byte> bytes,
                                         int dmabuf_fd) {
  void* const at = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf_fd, 0);
  if (at == MAP_FAILED) return Error(ErrorCode::kUnsupported, "this is no memory");
  device_memory_[region.value] = static_cast<std::byte*>(at);
  return add_region(region, bytes);
}

void ScriptedFabric::remove_region(LocalKey region) {
  const auto device = device_memory_.find(region.value);
  if (device != device_memory_.end()) {
    ::munmap(device->second, regions_[region.value].size());
    device_memory_.erase(device);
  }
  regions_.erase(region.value);
}

std::byte* ScriptedFabric::seen_by_device(std::uint64_t region, std::uint64_t address) const {
  const auto key = static_cast<std::uint32_t>(region);
  const auto device = device_memory_.find(key);
  if (device == device_memory_.end()) return reinterpret_cast<std::byte*>(address);
  return device->second + (address - reinterpret_cast<std::uintptr_t>(regions_.at(key).data()));
}

RemoteSpan ScriptedFabric::offer(FabricPeer /*peer*/, const Sge& piece) {
  SPINDRIFT_CHECK(
      covers(piece.region.value, reinterpret_cast<std::uintptr_t>(piece.data), piece.bytes));
  const std::uint32_t refusals = net_.options_.offer_refusals;
  if (refusals != 0 && ++offers_ % refusals == 0) return {};
  return {.address = reinterpret_cast<std::uintptr_t>(piece.data),
          .key = piece.region.value,
          .bytes = piece.bytes};
}

bool ScriptedFabric::covers(std::uint64_t region, std::uint64_t address,
                            std::uint64_t bytes) const {
  const auto found = regions_.find(static_cast<std::uint32_t>(region));
  if (found == regions_.end()) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(found->second.data());
  return address >= begin && bytes <= found->second.size() &&
         address - begin <= found->second.size() - bytes;
}

std::size_t ScriptedFabric::post(std::span<const FabricOp> ops) {
  std::size_t taken = 0;
  for (const FabricOp& op : ops) {
    const Ref& ref = peers_[op.peer.value];
    if (!(op.kind == FabricOp::Kind::kSend ? post_send(ref, op) : post_read(ref, op))) break;
    ++taken;
  }
  return taken;
}

std::size_t ScriptedFabric::poll(std::span<FabricCompletion> out) {
  std::size_t count = 0;
  for (const Ref& ref : peers_) {
    if (count == out.size()) break;
    if (ref.pair != nullptr && own(ref).is_open) count += poll_end(own(ref), out.subspan(count));
  }
  return count;
}

void ScriptedFabric::release(const FabricCompletion& message) {
  End& end = own(peers_[message.peer.value]);
  SPINDRIFT_CHECK(end.released < end.polled);
  const auto& slot = end.incoming[end.released % end.incoming.size()];
  SPINDRIFT_CHECK(message.payload.data() == slot.payload.data());  // in order
  ++end.released;
}

void ScriptedFabric::set_status(FabricPeer peer, const FabricStatus& status) {
  const Ref& ref = peers_[peer.value];
  End& end = other(ref);
  if (end.coming.is_full()) {
    end.coming[end.coming.size() - 1] = status;
    return;
  }
  end.coming.push_back(status);
  tell(ref.number, 1 - ref.side, Kind::kStatus);
}

FabricPeer ScriptedFabric::add_caller(Pair& pair, std::uint32_t number) {
  pair.ends[1].peer = take_number({.pair = &pair, .number = number, .side = 1});
  return pair.ends[1].peer;
}

FabricPeer ScriptedFabric::take_number(const Ref& ref) {
  std::uint32_t free = 0;
  while (free < peers_.size() && peers_[free].pair != nullptr)
    ++free;
  if (free == peers_.size()) peers_.emplace_back();
  peers_[free] = ref;
  return FabricPeer{free};
}

void ScriptedFabric::forget(FabricPeer peer) {
  own(peers_[peer.value]).is_dropped = true;
  own(peers_[peer.value]).host = nullptr;
  peers_[peer.value] = {};
}

void ScriptedFabric::tell(std::uint32_t pair, int side, Kind kind) {
  net_.schedule({.at = net_.now_ + net_.options_.delay,
                 .pair = pair,
                 .side = static_cast<std::uint8_t>(side),
                 .kind = kind});
}

bool ScriptedFabric::post_send(const Ref& ref, const FabricOp& op) {
  End& end = other(ref);
  if (own(ref).is_gone) return true;  // into the void
  if (end.posted - end.released >= end.incoming.size()) return false;
  SPINDRIFT_CHECK(bytes_of(op.local) <= kMaxPayload);
  auto& slot = end.incoming[end.posted++ % end.incoming.size()];
  slot.lane = op.lane;
  std::copy(op.header.begin(), op.header.end(), slot.header.begin());
  slot.payload.resize(bytes_of(op.local));
  std::byte* to = slot.payload.data();
  for (const Sge& piece : op.local) {
    if (piece.bytes != 0) std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
  if (net_.options_.tamper) net_.options_.tamper(slot.header, slot.payload);
  tell(ref.number, 1 - ref.side, Kind::kMessage);
  return true;
}

bool ScriptedFabric::post_read(const Ref& ref, const FabricOp& op) {
  End& end = own(ref);
  SPINDRIFT_CHECK(op.lane < ref.pair->lanes && op.local.size() <= caps_.max_read_local &&
                  op.remote.size() <= caps_.max_read_remote &&
                  bytes_of(op.local) == bytes_of(op.remote) &&
                  bytes_of(op.local) <= caps_.max_read_bytes);
  for (const Sge& piece : op.local)
    SPINDRIFT_CHECK(
        covers(piece.region.value, reinterpret_cast<std::uintptr_t>(piece.data), piece.bytes));
  if (end.posted_reads[op.lane] == net_.options_.reads_per_lane) return false;
  if (!net_.is_up_[op.lane] || end.is_gone) {
    if (end.done.is_full()) return false;
    ++net_.reads_lost_;
    end.done.push_back({.tag = op.tag, .lane = op.lane, .fault = FabricCompletion::Fault::kLost});
    return true;
  }
  const std::uint32_t index = end.free_reads.back();
  end.free_reads.pop_back();
  auto& read = end.reads[index];
  read.tag = op.tag;
  read.lane = op.lane;
  read.is_posted = true;
  read.locals = static_cast<std::uint8_t>(op.local.size());
  read.remotes = static_cast<std::uint8_t>(op.remote.size());
  std::copy(op.local.begin(), op.local.end(), read.local.begin());
  std::copy(op.remote.begin(), op.remote.end(), read.remote.begin());
  ++end.posted_reads[op.lane];
  read.bytes = bytes_of(op.local);
  end.all_posted_bytes += read.bytes;
  end.posted_bytes[op.lane] += read.bytes;
  net_.most_bytes_ = std::max(net_.most_bytes_, end.all_posted_bytes);
  net_.most_lane_bytes_ = std::max(net_.most_lane_bytes_, end.posted_bytes[op.lane]);
  net_.schedule({.at = when_read(end, op.lane, bytes_of(op.local)),
                 .pair = ref.number,
                 .index = index,
                 .era = read.era,
                 .side = ref.side,
                 .kind = Kind::kRead});
  return true;
}

Time ScriptedFabric::when_read(End& end, std::uint16_t lane, std::uint32_t bytes) {
  const ScriptedOptions& options = net_.options_;
  const Duration spread = options.read_most - options.read_least;
  Time at = net_.now_ + options.read_least;
  if (spread.count() > 0)
    at += Duration(
        static_cast<std::int64_t>(net_.rng_.below(static_cast<std::uint64_t>(spread.count()))));
  if (options.lane_rate.is_unlimited()) return at;
  Time& free = end.lane_free[lane];
  free = std::max(free, at) +
         Duration(static_cast<std::int64_t>(options.lane_rate.picoseconds_for(bytes) / 1000));
  return free;
}

std::size_t ScriptedFabric::poll_end(End& end, std::span<FabricCompletion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !end.done.is_empty(); ++count) {
    const auto& done = end.done.front();
    FabricCompletion& to = out[count];
    to.kind = FabricCompletion::Kind::kRead;
    to.is_ok = done.fault == FabricCompletion::Fault::kNone;
    to.fault = done.fault;
    to.peer = end.peer;
    to.lane = done.lane;
    to.tag = done.tag;
    end.done.pop_front();
  }
  for (; count < out.size() && !end.news.is_empty(); ++count) {
    FabricCompletion& to = out[count];
    to.kind = FabricCompletion::Kind::kLane;
    to.peer = end.peer;
    to.lane = end.news.front().lane;
    to.is_ok = end.news.front().is_up;
    end.news.pop_front();
  }
  for (; count < out.size() && end.polled < end.arrived && end.polled - end.released < kMaxHeld;
       ++count) {
    const auto& slot = end.incoming[end.polled++ % end.incoming.size()];
    FabricCompletion& to = out[count];
    to.kind = FabricCompletion::Kind::kMessage;
    to.peer = end.peer;
    to.lane = slot.lane;
    to.header = slot.header;
    to.payload = slot.payload;
  }
  if (count < out.size() && end.status.words != end.seen.words) {
    end.seen = end.status;
    out[count].kind = FabricCompletion::Kind::kStatus;
    out[count].peer = end.peer;
    ++count;
  }
  return count;
}

}  // namespace spindrift::test
