// The work of a link: what is posted, at random.
#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/soak/link.h"

namespace spindrift::soak {
namespace {

constexpr std::size_t kCellBytes = 64;

std::uint64_t length_of(Rng& rng, std::uint64_t highest) {
  switch (rng.below(6)) {
    case 0:
      return 0;
    case 1:
      return rng.below(std::min<std::uint64_t>(highest, 64) + 1);
    case 2:
      return highest;
    default:
      return rng.below(highest + 1);
  }
}

// One piece of memory as up to four entries of a scatter/gather list.
std::size_t split(const Block& block, std::uint64_t at, std::uint64_t bytes, std::span<Sge> out,
                  Rng& rng) {
  const std::size_t count = 1 + rng.below(out.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t part = i + 1 == count ? bytes : rng.below(bytes + 1);
    out[i] = block.piece(at, part);
    at += part;
    bytes -= part;
  }
  return count;
}

}  // namespace

void Link::prepare_atomic(End end, Operation& operation, WorkRequest& work, Rng& rng) {
  Side& peer = side(other(end));
  operation.cell = rng.below(kCells);
  operation.length = sizeof(std::uint64_t);
  Cell& cell = peer.model[operation.cell];
  operation.old_value = cell.history.back();
  operation.history = cell.history.size();
  work.remote_key = peer.cells->region().remote.key;
  work.remote_offset = operation.cell * kCellBytes;
  work.operand = rng.next();
  work.compare = rng.below(2) == 0 ? operation.old_value : rng.next();
  std::uint64_t value = operation.old_value + work.operand;
  if (operation.kind == OpKind::kCompareSwap)
    value = work.compare == operation.old_value ? work.operand : operation.old_value;
  cell.history.push_back(value);
}

void Link::make_mistake(End end, Operation& operation, WorkRequest& work, Rng& rng) {
  Side& peer = side(other(end));
  operation.mistake = static_cast<Mistake>(1 + rng.below(3));
  switch (operation.mistake) {
    case Mistake::kNone:
      return;
    case Mistake::kKey:
      work.remote_key ^= 1ULL << (20 + rng.below(40));
      return;
    case Mistake::kRight:
      work.remote_key = peer.forbidden->region().remote.key;
      work.remote_offset = 0;
      return;
    case Mistake::kBounds:
      work.remote_offset =
          work.kind == OpKind::kRead ? peer.source->area().size() : peer.written->area().size();
      work.remote_offset += 1 + rng.below(1U << 20U);
      return;
  }
}

// False: no room for such an operation now.
bool Link::prepare(End end, Operation& operation, WorkRequest& work, Rng& rng) {
  constexpr std::array kKinds{OpKind::kSend,  OpKind::kSend,     OpKind::kWrite,
                              OpKind::kWrite, OpKind::kWriteImm, OpKind::kRead,
                              OpKind::kRead,  OpKind::kFetchAdd, OpKind::kCompareSwap};
  Side& s = side(end);
  Side& peer = side(other(end));
  operation.serial = next_serial_;
  operation.kind = kKinds[rng.below(kKinds.size())];
  operation.length = length_of(rng, plan_.max_bytes);
  operation.from = rng.below(plan_.max_bytes);
  operation.is_unsignaled = rng.below(1000) < plan_.unsignaled;
  work.kind = operation.kind;
  const bool writes = operation.kind == OpKind::kWrite || operation.kind == OpKind::kWriteImm;
  std::vector<std::size_t>& free = writes ? peer.free_written : s.free_results;
  if (operation.kind != OpKind::kSend) {
    if (free.empty()) return false;
    operation.slot = free.back();
  }
  if (writes) {
    work.remote_key = peer.written->region().remote.key;
    work.remote_offset = operation.slot * plan_.max_bytes;
    work.immediate = static_cast<std::uint32_t>(operation.serial);
  } else if (operation.kind == OpKind::kRead) {
    work.remote_key = peer.source->region().remote.key;
    work.remote_offset = operation.from;
  } else if (operation.kind != OpKind::kSend) {
    prepare_atomic(end, operation, work, rng);
  }
  const bool may_err = writes || operation.kind == OpKind::kRead;
  if (may_err && operation.length != 0 && rng.below(1000) < plan_.mistakes)
    make_mistake(end, operation, work, rng);
  // Something of its own in each message with a deadline: it may never come, and the next one is
  // not taken for it.
  const bool is_telling = operation.length >= 16 || operation.kind == OpKind::kWrite;
  if (is_telling && !(operation.kind == OpKind::kFetchAdd) &&
      operation.kind != OpKind::kCompareSwap && rng.below(1000) < plan_.deadlines) {
    operation.has_deadline = true;
    work.timeout = Duration(static_cast<std::int64_t>(1000ULL << rng.below(21)));
  }
  return true;
}

void Link::post(End end, Rng& rng) {
  Side& s = side(end);
  if (!is_open(end) || s.is_closing) return;
  Operation operation;
  WorkRequest work;
  if (!prepare(end, operation, work, rng)) return;
  work.user_data = std::uint64_t{id_} << 32 | operation.serial;
  work.conn = s.conn;
  work.is_unsignaled = operation.is_unsignaled;
  work.has_fence = rng.below(8) == 0;
  std::array<Sge, 4> pieces{};
  const bool is_atomic =
      operation.kind == OpKind::kFetchAdd || operation.kind == OpKind::kCompareSwap;
  const bool brings = is_atomic || operation.kind == OpKind::kRead;
  const std::uint64_t at = brings ? operation.slot * plan_.max_bytes : operation.from;
  const std::size_t count = split(brings ? *s.results : *s.source, at, operation.length,
                                  is_atomic ? std::span(pieces).first(1) : std::span(pieces), rng);
  work.local = std::span(pieces).first(count);
  work.is_inline = !brings && operation.length <= kMaxInlineBytes && rng.below(2) == 0;
  const PostResult result = s.host->endpoint().post({&work, 1});
  Side& peer = side(other(end));
  if (result.accepted != 1) {
    if (is_atomic) peer.model[operation.cell].history.pop_back();
    if (result.status == PostStatus::kInvalid) fail(end, s.host->endpoint().last_error(s.conn));
    if (result.status == PostStatus::kNotConnected && !s.may_fail) fail(end, "cannot post");
    return;
  }
  ++next_serial_;
  ++operations_;
  if (operation.mistake != Mistake::kNone || operation.has_deadline) expect_trouble();
  const bool writes = operation.kind == OpKind::kWrite || operation.kind == OpKind::kWriteImm;
  if (operation.kind != OpKind::kSend) (writes ? peer.free_written : s.free_results).pop_back();
  s.outstanding.push_back(operation);
  if (operation.kind == OpKind::kSend || operation.kind == OpKind::kWriteImm)
    s.messages.push_back(operation);
}

void Link::post_receives(End end) {
  Side& s = side(end);
  if (s.uses_shared_queue || s.is_closing || is_over(end) || s.conn.value == 0) return;
  while (!s.free_received.empty()) {
    const std::size_t slot = s.free_received.back();
    const Sge piece = s.received->piece(slot * plan_.max_bytes, plan_.max_bytes);
    const WorkRequest receive{.user_data = kReceiveBit | std::uint64_t{id_} << 32 | slot,
                              .conn = s.conn,
                              .kind = OpKind::kReceive,
                              .local = {&piece, 1}};
    if (s.host->endpoint().post({&receive, 1}).accepted != 1) return;
    s.free_received.pop_back();
    ++s.receives;
  }
}

void Link::ask_once(End end) {
  Side& s = side(end);
  Side& peer = side(other(end));
  if (peer.free_written.empty()) {
    abort(end);
    return;
  }
  Operation operation;
  operation.serial = next_serial_++;
  operation.kind = OpKind::kWrite;
  operation.slot = peer.free_written.back();
  const WorkRequest work{.user_data = std::uint64_t{id_} << 32 | operation.serial,
                         .conn = s.conn,
                         .kind = OpKind::kWrite,
                         .remote_key = peer.written->region().remote.key};
  if (s.host->endpoint().post({&work, 1}).accepted != 1) return;
  peer.free_written.pop_back();
  s.outstanding.push_back(operation);
}

}  // namespace spindrift::soak
