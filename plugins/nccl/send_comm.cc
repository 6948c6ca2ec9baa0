#include <cstring>
#include <new>

#include "absl/strings/str_format.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/log.h"

namespace spindrift::nccl {
namespace {

constexpr std::size_t kMailboxAlignment = 128;  // lines of line-ordered memory

void free_mailbox(std::byte* memory) {
  ::operator delete[](memory, std::align_val_t(kMailboxAlignment));
}

}  // namespace

Status SendComm::start(const std::string& address, const ConnectOptions& options,
                       std::uint64_t nonce) {
  auto* memory =
      static_cast<std::byte*>(::operator new[](kMailboxBytes, std::align_val_t(kMailboxAlignment)));
  std::memset(memory, 0, kMailboxBytes);
  mailbox_.memory = {memory, &free_mailbox};
  lines_ = reinterpret_cast<const MailboxLine*>(memory);
  auto region = engine_.endpoint().register_memory({memory, kMailboxBytes}, Access::kRemoteWrite,
                                                   {.is_line_ordered = true});
  if (!region.ok()) return region.error();
  mailbox_.region = region.value();
  const auto wire = mailbox_.region.remote.serialize();
  ConnectOptions mine = options;
  mine.private_data = write_greeting({.nonce = nonce, .mailbox = {wire.begin(), wire.end()}});
  peer_ = address;
  const auto conn = engine_.endpoint().connect(address, mine);
  if (!conn.ok()) return conn.error();
  conn_ = conn.value();
  number_ = engine_.attach(*this, conn_);
  return ok_status();
}

NcclResult SendComm::isend(const Message& message, void* profiled_by, Request** request) {
  if (is_failed()) return report();
  if (!engine_.try_lock()) return kSuccess;
  const std::lock_guard guard(engine_, std::adopt_lock);
  return send_locked(message, profiled_by, request);
}

// Tags choose among the lines of the oldest receive alone.
const MailboxLine* SendComm::find_line(int tag, std::uint64_t& sequence) {
  const auto is_there = [&](std::uint64_t at) {
    // The receiver's engine thread stores it last.
    auto& word = const_cast<std::uint64_t&>(lines_[at % kMailboxLines].sequence);
    return std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire) == at + 1;
  };
  if (head_count_ == 0) {
    if (!is_there(head_)) return nullptr;
    const std::uint16_t count = lines_[head_ % kMailboxLines].group_count;
    if (count == 0 || count > kMaxReceives) {
      on_failed("the peer posted a receive that makes no sense");
      return nullptr;
    }
    head_count_ = count;
  }
  for (std::uint32_t i = 0; i < head_count_; ++i) {
    if (((used_ >> i) & 1U) != 0 || !is_there(head_ + i)) continue;
    const MailboxLine& line = lines_[(head_ + i) % kMailboxLines];
    if (line.tag != tag) continue;
    sequence = head_ + i;
    return &line;
  }
  return nullptr;
}

void SendComm::use_line(std::uint64_t sequence) {
  used_ |= 1U << (sequence - head_);
  if (used_ != (1U << head_count_) - 1) return;
  head_ += head_count_;
  head_count_ = 0;
  used_ = 0;
}

// The peer waits for bytes that will not come: it has to hear of it.
NcclResult SendComm::refuse_length(std::size_t bytes, int tag, std::uint64_t capacity) {
  on_failed(
      absl::StrFormat("a send of %d bytes with tag %d met a receive of %d bytes; both sides "
                      "must agree on counts and types",
                      bytes, tag, capacity));
  engine_.endpoint().abort(conn_);
  static_cast<void>(report());
  return kInvalidUsage;
}

NcclResult SendComm::send_locked(const Message& message, void* profiled_by, Request** request) {
  const auto [data, bytes, tag, memory] = message;
  std::uint64_t sequence = 0;
  const MailboxLine* line = find_line(tag, sequence);
  if (line == nullptr) {
    engine_.progress();
    line = find_line(tag, sequence);
  }
  if (is_failed()) return report();
  if (line == nullptr) {
    probe_peer();
    return kSuccess;
  }
  if (bytes > line->capacity) return refuse_length(bytes, tag, line->capacity);
  Sge piece{.data = data, .bytes = static_cast<std::uint32_t>(bytes)};
  if (bytes != 0) {
    if (memory == nullptr) return kInvalidArgument;
    const auto region = engine_.region_of(memory->number, memory->bytes);
    if (!region.ok()) {
      warn(region.error().message());
      return kSystemError;
    }
    piece.region = region.value().local;
  }
  Request* const mine = take_request();
  if (mine == nullptr) return kSuccess;
  const WorkRequest work{.user_data = Engine::work_tag(number_, index_of(*mine)),
                         .conn = conn_,
                         .kind = OpKind::kWriteImm,
                         .immediate = static_cast<std::uint32_t>(sequence),
                         .local = std::span(&piece, bytes == 0 ? 0 : 1),
                         .remote_key = line->key,
                         .remote_offset = line->offset};
  const PostResult posted = engine_.endpoint().post(std::span(&work, 1));
  if (posted.accepted == 0) {
    put_back(*mine);
    if (posted.status == PostStatus::kQueueFull) return kSuccess;
    fail(OpStatus::kFlushed);
    return report();
  }
  mine->count = 1;
  mine->remaining = 1;
  mine->bytes[0] = static_cast<int>(bytes);
  mine->registrations[0] = memory == nullptr ? kNobody : memory->number;
  mine->event.start(profiled_by, ProfiledEvent::Kind::kSend, bytes);
  ++messages_;
  bytes_ += bytes;
  use_line(sequence);
  engine_.expect_news();
  *request = mine;
  return kSuccess;
}

void SendComm::on_open() {
  Comm::on_open();
  const auto info = engine_.endpoint().info(conn_);
  if (!info.ok()) return;
  const auto greeting = read_greeting(info.value().private_data);
  if (!greeting.ok()) return;
  const auto region = RemoteRegion::deserialize(greeting.value().mailbox);
  if (region.ok()) peer_key_ = region.value().key;
}

void SendComm::on_completion(const Completion& completion) {
  if (completion.status != OpStatus::kOk) {
    fail(completion.status);
    return;
  }
  const auto index = static_cast<std::uint32_t>(completion.user_data);
  if (index < requests_.size() && requests_[index].is_used) finish_one(requests_[index]);
}

}  // namespace spindrift::nccl
