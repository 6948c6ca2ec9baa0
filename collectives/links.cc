#include "collectives/links.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <absl/strings/str_format.h>

#include "collectives/bound_plan.h"
#include "collectives/wait_any.h"
#include "transport/base/scratch.h"

namespace spindrift::collectives {
namespace {

constexpr std::size_t kBatch = 64;
constexpr std::size_t kSendSlots = 128;
// Receive slots of one link: enough for a burst, and not too much memory where ranks are many.
constexpr std::uint32_t kMaxReceiveSlots = 64;
constexpr std::uint32_t kMinReceiveSlots = 16;
constexpr std::uint32_t kReceiveSlotsOfAll = 1024;
constexpr std::uint32_t kTurnsBetweenLooks = 64;

// What a completion is about: kind in the top byte, then two numbers.
enum class Tag : std::uint8_t { kNothing, kReceiveSlot, kSendSlot, kWrite };

PostOutcome outcome_of(PostStatus status) {
  switch (status) {
    case PostStatus::kOk:
      return PostOutcome::kPosted;
    case PostStatus::kQueueFull:
      return PostOutcome::kFull;
    case PostStatus::kNotConnected:
      return PostOutcome::kGone;
    case PostStatus::kInvalid:
      break;
  }
  return PostOutcome::kRefused;
}

std::uint64_t tag(Tag kind, std::uint64_t value) {
  return static_cast<std::uint64_t>(kind) << Links::kTokenBits | value;
}

}  // namespace

Links::Links(Endpoints endpoints, Roster roster, const CommunicatorOptions& options, LinkSink& sink)
    : endpoints_(std::move(endpoints)),
      roster_(std::move(roster)),
      options_(options),
      sink_(sink),
      rank_(options.rank),
      receive_slots_(std::clamp(kReceiveSlotsOfAll / std::max(options.ranks, 1U), kMinReceiveSlots,
                                kMaxReceiveSlots)),
      links_(options.ranks) {
  const Seat& own = roster_.seats[rank_];
  for (std::uint32_t peer = 0; peer < links_.size(); ++peer) {
    const Seat& seat = roster_.seats[peer];
    const bool shares_host = endpoints_.size() > 1 && seat.host == own.host &&
                             !seat.same_host_address.empty() && !own.same_host_address.empty();
    links_[peer].via = shares_host ? 1 : 0;
    if (peer != rank_) ++links_via_[links_[peer].via];
  }
}

Links::~Links() {
  abort_all();
  for (Link& link : links_) {
    Endpoint& endpoint = *endpoints_[link.via];
    if (link.conn != ConnId{}) endpoint.release(link.conn);
    if (!link.slots.is_empty()) (void)endpoint.deregister_memory(link.region);
  }
  if (!send_memory_.is_empty()) (void)deregister_with_all(endpoints_, send_set_);
}

const std::string& Links::address(std::uint32_t peer) const {
  const Seat& seat = roster_.seats[peer];
  return is_near(peer) ? seat.same_host_address : seat.address;
}

std::vector<RankLink> Links::describe() const {
  std::vector<RankLink> all;
  for (std::uint32_t peer = 0; peer < ranks(); ++peer) {
    const Link& link = links_[peer];
    if (peer == rank_) continue;
    all.push_back({.rank = peer,
                   .address = address(peer),
                   .is_open = link.state == State::kOpen,
                   .note = link.why_far,
                   .endpoint = &endpoint(peer),
                   .conn = link.conn});
  }
  return all;
}

Status Links::make_send_slots() {
  if (!send_memory_.is_empty()) return ok_status();
  Result<Pages> memory = Pages::map(kSendSlots * kSlotBytes);
  if (!memory.ok()) return memory.error();
  const Result<RegionSet> set =
      register_with_all(endpoints_, memory.value().bytes(), Access::kLocalRead);
  if (!set.ok()) return set.error();
  send_memory_ = std::move(memory).value();
  send_set_ = set.value();
  send_slots_ = kSendSlots;
  for (std::uint32_t slot = 0; slot < kSendSlots; ++slot)
    free_slots_.push_back(slot);
  return ok_status();
}

bool Links::post_slot(std::uint32_t peer, std::uint32_t slot) {
  Link& link = links_[peer];
  const Sge piece{.data = link.slots.data() + slot * kSlotBytes,
                  .bytes = static_cast<std::uint32_t>(kSlotBytes),
                  .region = link.region.local};
  const WorkRequest request{.user_data = tag(Tag::kReceiveSlot, std::uint64_t{peer} << 32U | slot),
                            .conn = link.conn,
                            .kind = OpKind::kReceive,
                            .local = std::span<const Sge>(&piece, 1)};
  return endpoint(peer).post(std::span<const WorkRequest>(&request, 1)).accepted == 1;
}

PostOutcome Links::send(std::uint32_t peer, const MessageHeader& header,
                        std::span<const std::byte> payload) {
  const std::size_t bytes = sizeof(header) + payload.size();
  const bool is_inline = bytes <= kMaxInlineBytes;
  Scratch<std::byte, kMaxInlineBytes> copy;
  if (!is_inline && free_slots_.empty()) return PostOutcome::kFull;
  const std::uint32_t slot = is_inline ? 0 : free_slots_.back();
  std::byte* const place = is_inline ? copy.data() : send_memory_.data() + slot * kSlotBytes;
  std::memcpy(place, &header, sizeof(header));
  if (!payload.empty()) std::memcpy(place + sizeof(header), payload.data(), payload.size());
  const Sge piece{.data = place,
                  .bytes = static_cast<std::uint32_t>(bytes),
                  .region = send_set_.regions[links_[peer].via].local};
  const WorkRequest request{.user_data = is_inline ? 0 : tag(Tag::kSendSlot, slot),
                            .conn = links_[peer].conn,
                            .kind = OpKind::kSend,
                            .is_unsignaled = is_inline,
                            .is_inline = is_inline,
                            .local = std::span<const Sge>(&piece, 1)};
  const PostResult result = endpoint(peer).post(std::span<const WorkRequest>(&request, 1));
  if (result.accepted == 1) {
    if (!is_inline) free_slots_.pop_back();
    return PostOutcome::kPosted;
  }
  return outcome_of(result.status);
}

PostOutcome Links::write(std::uint32_t peer, const Sge& source, const Target& target,
                         std::uint32_t immediate, std::uint64_t token) {
  const WorkRequest request{.user_data = tag(Tag::kWrite, token),
                            .conn = links_[peer].conn,
                            .kind = OpKind::kWriteImm,
                            .immediate = immediate,
                            .local = std::span<const Sge>(&source, 1),
                            .remote_key = target.key,
                            .remote_offset = target.offset};
  const PostResult result = endpoint(peer).post(std::span<const WorkRequest>(&request, 1));
  if (result.accepted == 1) return PostOutcome::kPosted;
  return outcome_of(result.status);
}

std::string Links::last_error(std::uint32_t peer) const {
  return endpoint(peer).last_error(links_[peer].conn);
}

std::size_t Links::poll() {
  for (std::size_t i = unposted_.size(); i > 0; --i) {
    if (!post_slot(unposted_[i - 1].peer, unposted_[i - 1].slot)) continue;
    unposted_.erase(unposted_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  // An endpoint without links is only looked at now and then, for those who call.
  ++turn_;
  std::size_t happened = 0;
  for (std::size_t via = 0; via < endpoints_.size(); ++via) {
    if (links_via_[via] > 0 || turn_ % kTurnsBetweenLooks == 0) happened += poll_endpoint(via);
  }
  return happened;
}

std::size_t Links::poll_endpoint(std::size_t via) {
  std::array<Completion, kBatch> completions;
  const std::size_t count = endpoints_[via]->poll(completions);
  for (std::size_t i = 0; i < count; ++i)
    on_completion(via, completions[i]);
  if (count > 0) return count;
  // What a peer said before its connection ended is read before its end is noticed.
  std::array<ConnEvent, 16> events;
  const std::size_t event_count = endpoints_[via]->poll_events(events);
  for (std::size_t i = 0; i < event_count; ++i)
    on_event(via, events[i]);
  return event_count;
}

void Links::sleep(Duration timeout, int wake_fd) {
  if (endpoints_.size() == 1 && wake_fd < 0) {
    endpoints_[0]->wait(timeout);
  } else {
    wait_for_any(endpoints_, timeout, wake_fd);
  }
}

void Links::on_completion(std::size_t via, const Completion& completion) {
  const auto kind = static_cast<Tag>(completion.user_data >> kTokenBits);
  const std::uint64_t value = completion.user_data & ((std::uint64_t{1} << kTokenBits) - 1);
  switch (kind) {
    case Tag::kReceiveSlot:
      on_received(static_cast<std::uint32_t>(value >> 32U), static_cast<std::uint32_t>(value),
                  completion);
      return;
    case Tag::kSendSlot:
      free_slots_.push_back(static_cast<std::uint32_t>(value));
      break;
    case Tag::kWrite:
      if (completion.status == OpStatus::kOk) sink_.on_write_done(value);
      break;
    case Tag::kNothing:
      break;
  }
  // Where the connection has ended, its event follows; what the peer said last is read before that.
  if (completion.status == OpStatus::kOk || completion.status == OpStatus::kFlushed ||
      completion.status == OpStatus::kPeerGone) {
    return;
  }
  const std::optional<std::uint32_t> peer = peer_of(via, completion.conn);
  if (!peer) return;
  lose(*peer, false,
       absl::StrFormat("%s: %s", to_string(completion.status),
                       endpoints_[via]->last_error(completion.conn)));
}

void Links::on_received(std::uint32_t peer, std::uint32_t slot, const Completion& completion) {
  if (completion.status != OpStatus::kOk) return;  // the event says why
  if (completion.has_immediate) {
    sink_.on_written(peer, completion.immediate, completion.bytes);
  } else {
    const Held message{.peer = peer, .slot = slot, .bytes = completion.bytes};
    const bool is_behind =
        std::any_of(held_.begin(), held_.end(), [&](const Held& one) { return one.peer == peer; });
    if (is_behind || !offer(message)) {
      held_.push_back(message);
      return;
    }
  }
  repost(peer, slot);
}

bool Links::offer(const Held& message) {
  if (message.bytes < sizeof(MessageHeader) || message.bytes > kSlotBytes) return true;
  const std::span<const std::byte> bytes(
      links_[message.peer].slots.data() + message.slot * kSlotBytes, message.bytes);
  MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.kind == MessageKind::kPing) return true;
  if (header.kind == MessageKind::kGoodbye) {
    links_[message.peer].has_heard_goodbye = true;
    return true;
  }
  return sink_.on_message(message.peer, header, bytes.subspan(sizeof(header)));
}

void Links::repost(std::uint32_t peer, std::uint32_t slot) {
  if (links_[peer].state == State::kLost) return;
  if (!post_slot(peer, slot)) unposted_.push_back({.peer = peer, .slot = slot});
}

void Links::retry_held() {
  std::vector<Held> again;
  again.swap(held_);
  for (const Held& message : again) {
    const bool is_behind = std::any_of(held_.begin(), held_.end(),
                                       [&](const Held& one) { return one.peer == message.peer; });
    if (is_behind || !offer(message)) {
      held_.push_back(message);
    } else {
      repost(message.peer, message.slot);
    }
  }
}

void Links::on_event(std::size_t via, const ConnEvent& event) {
  if (event.kind == ConnEvent::Kind::kRequest) {
    on_request(via, event.conn);
    return;
  }
  const std::optional<std::uint32_t> peer = peer_of(via, event.conn);
  if (!peer) return;
  if (event.kind == ConnEvent::Kind::kEstablished) {
    links_[*peer].state = State::kOpen;
    sink_.on_open(*peer);
    return;
  }
  lose(*peer, event.kind == ConnEvent::Kind::kClosed, endpoints_[via]->last_error(event.conn));
}

std::optional<std::uint32_t> Links::peer_of(std::size_t via, ConnId conn) const {
  for (std::uint32_t peer = 0; peer < links_.size(); ++peer) {
    if (links_[peer].via == via && links_[peer].conn == conn) return peer;
  }
  return std::nullopt;
}

void Links::drain() {
  std::array<Completion, kBatch> completions;
  std::array<ConnEvent, 16> events;
  for (Endpoint* const endpoint : endpoints_) {
    endpoint->progress();
    while (endpoint->poll(completions) > 0) {
    }
    while (endpoint->poll_events(events) > 0) {
    }
  }
}

}  // namespace spindrift::collectives
