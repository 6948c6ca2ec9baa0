#include "providers/shm/shm_fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "providers/monotonic_clock.h"
#include "providers/shm/shm_copy.h"
#include "providers/shm/shm_host.h"
#include "transport/base/url_options.h"

namespace spindrift {
namespace {

constexpr std::size_t kReadsAtOnce = 1024;
// A ring must take several messages of the largest size, or the two sides would take turns.
constexpr std::uint32_t kLargestMessage = 16384;
constexpr std::uint32_t kLargestRead = 1U << 20U;
constexpr std::uint32_t kTimedEvery = 16;  // long messages that arrive by the ring

// What was written before is seen by whoever does not see what is read after.
void order_stores_before_loads() {
#ifdef __SANITIZE_THREAD__  // it knows no fences
  static std::atomic<int> any{0};
  any.fetch_add(1);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

ShmFabric::ShmFabric(const ShmOptions& options) : options_(options), reads_done_(kReadsAtOnce) {
  caps_.name = "shm";
  caps_.max_peers = kMaxShmPeers;
  caps_.max_payload_bytes = std::min(kLargestMessage, options.ring_bytes / 4);
  caps_.max_read_bytes = options.single_copy == SingleCopy::kOff ? 0 : kLargestRead;
  caps_.read_chunk_bytes = kLargestRead;  // one call of the kernel's for as much as possible
  caps_.max_held = 64;
  // Only numbers: each side may use as many as it likes.
  caps_.max_lanes = 256;
  caps_.sprays_messages = true;
  caps_.link_rate = Rate::gbps(200);
}

Time ShmFabric::now() const {
  return monotonic_now();
}

Status ShmFabric::add_region(LocalKey /*region*/, std::span<std::byte> /*bytes*/) {
  return ok_status();  // any memory will do
}

void ShmFabric::remove_region(LocalKey /*region*/) {}

std::uint32_t ShmFabric::reads_from(FabricPeer id) const {
  const bool reads = options_.single_copy == SingleCopy::kOn || peers_[id.value]->choice.reads();
  return reads ? options_.single_copy_bytes : UINT32_MAX;
}

RemoteSpan ShmFabric::offer(FabricPeer id, const Sge& piece) {
  note_moved(*peers_[id.value], piece.bytes);
  return {.address = reinterpret_cast<std::uintptr_t>(piece.data), .bytes = piece.bytes};
}

void ShmFabric::note_moved(ShmPeer& peer, std::uint64_t bytes) {
  const ShmBlock& block = peer.memory.block(1 - peer.side);
  peer.choice.note_moved(bytes, {.ring = block.ring_rate.load(std::memory_order_relaxed),
                                 .reads = block.read_rate.load(std::memory_order_relaxed)});
}

// Now and then the beginning of a payload is fetched from the ring, timed: what uses it later finds
// it in the cache.
void ShmFabric::time_ring(ShmPeer& peer, std::span<const std::byte> payload) {
  if (payload.size() < ShmChoice::kTimedBytes || !peer.reach.reads_peer ||
      ++peer.long_arrivals % kTimedEvery != 0) {
    return;
  }
  const Time start = now();
  std::memcpy(fetched_.data(), payload.data(), kFetchedBytes);
  peer.taken.add(kFetchedBytes, (now() - start).count());
  peer.memory.block(peer.side).ring_rate.store(peer.taken.value(), std::memory_order_relaxed);
}

bool ShmFabric::send_message(ShmPeer& peer, const FabricOp& op) {
  const std::uint32_t bytes = op.local.size() == 1 ? op.local[0].bytes : 0;
  if (bytes < ShmChoice::kTimedBytes || !peer.reach.is_read_by_peer) return peer.writer.write(op);
  const bool is_timed = peer.choice.is_timed();
  const Time start = is_timed ? now() : Time{};
  if (!peer.writer.write(op)) return false;
  if (is_timed) peer.choice.note_copy(bytes, (now() - start).count());
  note_moved(peer, bytes);
  return true;
}

bool ShmFabric::read_memory(ShmPeer& peer, const FabricOp& op) {
  if (reads_done_.is_full()) return false;
  const Time start = now();
  const int error = read_process(peer.process, op.remote, op.local);
  if (error != 0)
    peer.read_error = "reading the memory of process " + std::to_string(peer.process) + ": " +
                      std::system_category().message(error);
  ++reads_;
  std::uint64_t bytes = 0;
  for (const Sge& piece : op.local)
    bytes += piece.bytes;
  read_bytes_ += bytes;
  if (error == 0 && bytes >= ShmChoice::kTimedBytes) {
    peer.read.add(static_cast<std::uint32_t>(bytes), (now() - start).count());
    peer.memory.block(peer.side).read_rate.store(peer.read.value(), std::memory_order_relaxed);
  }
  reads_done_.push_back({.tag = op.tag, .peer = op.peer, .is_ok = error == 0});
  return true;
}

std::size_t ShmFabric::post(std::span<const FabricOp> ops) {
  std::size_t taken = 0;
  ShmPeer* last = nullptr;
  for (const FabricOp& op : ops) {
    ShmPeer& peer = *peers_[op.peer.value];
    if (last != nullptr && last != &peer) wake(*last);
    last = &peer;
    const bool is_taken =
        op.kind == FabricOp::Kind::kSend ? send_message(peer, op) : read_memory(peer, op);
    if (!is_taken) break;
    ++taken;
  }
  if (last != nullptr) wake(*last);
  return taken;
}

// After something was written for the peer to see.
void ShmFabric::wake(ShmPeer& peer) {
  order_stores_before_loads();  // the sleeper does the reverse
  std::atomic<std::uint32_t>& flag = peer.memory.block(1 - peer.side).is_asleep;
  if (flag.load(std::memory_order_relaxed) == 0 || flag.exchange(0) == 0) return;
  ++wake_ups_;
  send_wake_up(peer.socket.get());
}

bool ShmFabric::poll_status(ShmPeer& peer, FabricCompletion& out) const {
  const FabricStatus now = status(peer.id);
  if (now.words == peer.seen.words) return false;
  peer.seen = now;
  out.kind = FabricCompletion::Kind::kStatus;
  out.peer = peer.id;
  return true;
}

std::size_t ShmFabric::poll_peer(ShmPeer& peer, std::span<FabricCompletion> out) {
  std::size_t count = 0;
  while (count < out.size() && peer.reader.held() < caps_.max_held) {
    const ShmReader::Got got = peer.reader.read(out[count]);
    if (got == ShmReader::Got::kNothing) break;
    if (got == ShmReader::Got::kNonsense) {
      ++nonsense_;
      peer.is_broken = true;
      lose(peer, "it wrote into the shared ring what no version of this library writes");
      break;
    }
    time_ring(peer, out[count].payload);
    out[count++].peer = peer.id;
  }
  if (count < out.size() && poll_status(peer, out[count])) ++count;
  return count;
}

std::size_t ShmFabric::poll(std::span<FabricCompletion> out) {
  std::size_t count = 0;
  for (; count < out.size() && !reads_done_.is_empty(); ++count) {
    const ReadDone& done = reads_done_.front();
    out[count].kind = FabricCompletion::Kind::kRead;
    out[count].peer = done.peer;
    out[count].tag = done.tag;
    out[count].is_ok = done.is_ok;
    out[count].fault =
        done.is_ok ? FabricCompletion::Fault::kNone : FabricCompletion::Fault::kRefused;
    reads_done_.pop_front();
  }
  const std::size_t peers = open_peers_.size();
  // Also where peers have gone since: it is always one of those that there are.
  first_polled_ = first_polled_ + 1 < peers ? first_polled_ + 1 : 0;
  for (std::size_t i = 0; i < peers && count < out.size(); ++i) {
    std::size_t index = i + first_polled_;
    if (index >= peers) index -= peers;
    ShmPeer& peer = *open_peers_[index];
    if (peer.phase == ShmPeer::Phase::kOpen && !peer.is_broken)
      count += poll_peer(peer, out.subspan(count));
  }
  return count;
}

void ShmFabric::set_status(FabricPeer id, const FabricStatus& status) {
  ShmPeer& peer = *peers_[id.value];
  if (!peer.memory.is_mapped()) return;
  ShmBlock& block = peer.memory.block(peer.side);
  for (std::size_t i = 0; i < status.words.size(); ++i)
    block.status[i].store(status.words[i], std::memory_order_release);
  wake(peer);
}

FabricStatus ShmFabric::status(FabricPeer id) const {
  const ShmPeer& peer = *peers_[id.value];
  FabricStatus out;
  if (!peer.memory.is_mapped()) return out;
  const ShmBlock& block = peer.memory.block(1 - peer.side);
  for (std::size_t i = 0; i < out.words.size(); ++i)
    out.words[i] = block.status[i].load(std::memory_order_acquire);
  return out;
}

bool ShmFabric::has_news(const ShmPeer& peer) const {
  if (peer.phase != ShmPeer::Phase::kOpen || peer.is_broken) return false;
  return (peer.reader.held() < caps_.max_held && peer.reader.has_message()) ||
         status(peer.id).words != peer.seen.words;
}

bool ShmFabric::arm() {
  for (ShmPeer* peer : open_peers_)
    peer->memory.block(peer->side).is_asleep.store(1, std::memory_order_relaxed);
  order_stores_before_loads();
  turns_to_look_ = 1;
  look_at_sockets();   // also takes old wake-ups away
  turns_to_look_ = 1;  // who wakes up looks again
  return events_.empty() && reads_done_.is_empty() && gone_untold_ == 0 &&
         std::none_of(open_peers_.begin(), open_peers_.end(),
                      [this](const ShmPeer* peer) { return has_news(*peer); });
}

void ShmFabric::counters(CounterWriter& out) const {
  out.counter("shm_reads", reads_);
  out.counter("shm_read_bytes", read_bytes_);
  out.counter("shm_wake_ups", wake_ups_);
  out.counter("shm_nonsense", nonsense_);
}

namespace {

Result<std::unique_ptr<MessageFabric>> open_from_url(const Url& url) {
  Settings settings;
  const Status taken = take_url_options(url, TunableScope::kShm, settings);
  if (!taken.ok()) return taken.error();
  return open_shm(settings.shm);
}

Status probe_host() {
  const auto file = make_shm_file(ShmLayout{.ring_bytes = 65536});
  if (!file.ok()) return file.error();
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<MessageFabric>> open_shm(const ShmOptions& options) {
  auto fabric = std::make_unique<ShmFabric>(options);
  const Status opened = fabric->open();
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<MessageFabric>(std::move(fabric));
}

const ProviderInfo& shm_provider() {
  static constexpr ProviderInfo kInfo{.name = "shm",
                                      .summary = "shared memory between processes of one host",
                                      .probe = probe_host,
                                      .open_fabric = open_from_url};
  return kInfo;
}

}  // namespace spindrift
