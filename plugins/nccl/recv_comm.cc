#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/log.h"

namespace spindrift::nccl {
namespace {

// RECEIVEs that immediates consume: one per line that can be outstanding, and as many again as
// may wait to be posted anew.
constexpr std::uint32_t kReceiveBatch = 32;
constexpr auto kReceives = static_cast<std::uint32_t>(kMailboxLines) + kReceiveBatch;
constexpr std::size_t kLinesPerWrite = kMaxInlineBytes / sizeof(MailboxLine);
constexpr std::uint32_t kReceiveTag = 0x80000000;

// Something to name for receives that have no memory; nobody writes to it.
Mailbox make_empty() {
  Mailbox empty;
  empty.memory = {new std::byte[sizeof(MailboxLine)], [](std::byte* memory) { delete[] memory; }};
  return empty;
}

}  // namespace

Status RecvComm::start(ConnId conn, const std::vector<std::byte>& mailbox,
                       const ConnectOptions& options, std::uint64_t nonce) {
  const auto remote = RemoteRegion::deserialize(mailbox);
  if (!remote.ok()) return remote.error();
  peer_key_ = remote.value().key;
  if (remote.value().bytes < kMailboxBytes)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("the peer's mailbox has %d bytes, and %d are needed",
                                 remote.value().bytes, kMailboxBytes));
  empty_ = make_empty();
  auto region = engine_.endpoint().register_memory({empty_.memory.get(), sizeof(MailboxLine)},
                                                   Access::kRemoteWrite);
  if (!region.ok()) return region.error();
  empty_.region = region.value();
  conn_ = conn;
  number_ = engine_.attach(*this, conn);
  receives_to_post_ = kReceives;
  post_receives();
  ConnectOptions mine = options;
  const auto wire = empty_.region.remote.serialize();
  mine.private_data = write_greeting({.nonce = nonce, .mailbox = {wire.begin(), wire.end()}});
  return engine_.endpoint().accept(conn, mine);
}

NcclResult RecvComm::irecv(std::span<const Receive> group, void* profiled_by, Request** request) {
  if (is_failed()) return report();
  if (!engine_.try_lock()) return kSuccess;
  const std::lock_guard guard(engine_, std::adopt_lock);
  return receive_locked(group, profiled_by, request);
}

bool RecvComm::write_line(const Receive& receive, MailboxLine& line) {
  line.capacity = receive.capacity;
  line.tag = receive.tag;
  if (receive.memory == nullptr) {
    line.key = empty_.region.remote.key;
    line.offset = 0;
    return receive.capacity == 0;
  }
  const auto region = engine_.region_of(receive.memory->number, receive.memory->bytes);
  if (!region.ok()) {
    warn(region.error().message());
    return false;
  }
  line.key = region.value().remote.key;
  line.offset = static_cast<std::uint64_t>(receive.data - region.value().bytes.data());
  return receive.data >= region.value().bytes.data() &&
         line.offset + receive.capacity <= region.value().bytes.size();
}

NcclResult RecvComm::receive_locked(std::span<const Receive> group, void* profiled_by,
                                    Request** request) {
  for (std::size_t i = 0; i < group.size(); ++i)
    if (posted_[(next_line_ + i) % kMailboxLines].request != nullptr) return kSuccess;
  Request* const mine = take_request();
  if (mine == nullptr) return kSuccess;
  std::size_t capacity = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    MailboxLine& line = lines_[(next_line_ + i) % kMailboxLines];
    if (!write_line(group[i], line)) {
      put_back(*mine);
      warn(
          absl::StrFormat("a receive of %d bytes lies outside the memory that was registered for "
                          "it",
                          group[i].capacity));
      return kInvalidArgument;
    }
    line.group_index = static_cast<std::uint16_t>(i);
    line.group_count = static_cast<std::uint16_t>(group.size());
    line.sequence = next_line_ + i + 1;
    mine->registrations[i] = group[i].memory == nullptr ? kNobody : group[i].memory->number;
    capacity += group[i].capacity;
  }
  mine->count = static_cast<std::uint8_t>(group.size());
  mine->remaining = mine->count;
  for (std::size_t i = 0; i < group.size(); ++i) {
    posted_[next_line_ % kMailboxLines] = {
        .request = mine, .sequence = next_line_, .index = static_cast<std::uint8_t>(i)};
    ++next_line_;
  }
  mine->event.start(profiled_by, ProfiledEvent::Kind::kReceive, capacity);
  post_lines();
  engine_.expect_news();
  *request = mine;
  return kSuccess;
}

// Lines that lie beside each other travel together.
void RecvComm::post_lines() {
  while (lines_posted_ != next_line_) {
    const std::uint64_t at = lines_posted_ % kMailboxLines;
    const std::uint64_t count =
        std::min({next_line_ - lines_posted_, kMailboxLines - at, std::uint64_t{kLinesPerWrite}});
    const auto bytes = static_cast<std::uint32_t>(count * sizeof(MailboxLine));
    const Sge piece{.data = reinterpret_cast<std::byte*>(&lines_[at]), .bytes = bytes};
    const WorkRequest work{.user_data = Engine::work_tag(number_, kNobody),
                           .conn = conn_,
                           .kind = OpKind::kWrite,
                           .is_unsignaled = true,
                           .is_inline = true,
                           .local = std::span(&piece, 1),
                           .remote_key = peer_key_,
                           .remote_offset = at * sizeof(MailboxLine)};
    const PostResult posted = engine_.endpoint().post(std::span(&work, 1));
    if (posted.accepted == 0) {
      if (posted.status != PostStatus::kQueueFull) fail(OpStatus::kFlushed);
      return;
    }
    lines_posted_ += count;
  }
}

void RecvComm::post_receives() {
  std::array<WorkRequest, kReceiveBatch> work;
  while (receives_to_post_ != 0) {
    const std::uint32_t count = std::min(receives_to_post_, kReceiveBatch);
    for (std::uint32_t i = 0; i < count; ++i)
      work[i] = {.user_data = Engine::work_tag(number_, kReceiveTag),
                 .conn = conn_,
                 .kind = OpKind::kReceive};
    const PostResult posted = engine_.endpoint().post(std::span(work).first(count));
    receives_to_post_ -= static_cast<std::uint32_t>(posted.accepted);
    if (posted.accepted != count) return;
  }
}

void RecvComm::after_progress() {
  if (lines_posted_ != next_line_ && !is_failed()) post_lines();
  probe_peer();
}

void RecvComm::on_completion(const Completion& completion) {
  if (completion.status != OpStatus::kOk) {
    fail(completion.status);
    return;
  }
  if (!completion.has_immediate) return;
  on_written(completion);
  if (++receives_to_post_ >= kReceiveBatch) post_receives();
}

void RecvComm::on_written(const Completion& completion) {
  Posted& posted = posted_[completion.immediate % kMailboxLines];
  if (posted.request == nullptr ||
      static_cast<std::uint32_t>(posted.sequence) != completion.immediate) {
    on_failed("the peer wrote to a receive that nobody had posted");
    return;
  }
  const std::uint64_t capacity = lines_[completion.immediate % kMailboxLines].capacity;
  if (completion.bytes > capacity) {
    on_failed(absl::StrFormat("the peer wrote %d bytes where a receive of %d was posted",
                              completion.bytes, capacity));
    return;
  }
  Request& request = *posted.request;
  request.bytes[posted.index] = static_cast<int>(completion.bytes);
  posted.request = nullptr;
  ++messages_;
  bytes_ += completion.bytes;
  finish_one(request);
}

}  // namespace spindrift::nccl
