#include "transport/work_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace spindrift {
namespace {

std::string name_of(OpKind kind) {
  return std::string(to_string(kind));
}

PostStatus refuse_piece(const WorkRequest& work, std::size_t piece, bool needs_write,
                        std::string& error) {
  return refuse_work(error, absl::StrCat(name_of(work.kind), ": scatter/gather entry ", piece, " (",
                                         work.local[piece].bytes,
                                         " bytes) does not lie in the region its key "
                                         "names, the region is gone",
                                         needs_write ? ", or it does not grant kLocalWrite" : ""));
}

// Where messages of any length land: short ones are copied there by the processor.
PostStatus check_landing(const MemoryTable& memory, const WorkRequest& work, std::string& error,
                         ListFacts& facts) {
  const PostStatus status = check_list(memory, work, true, error, facts);
  if (status != PostStatus::kOk || !facts.has_device) return status;
  return refuse_work(error,
                     "a RECEIVE cannot lie in device memory; let the peer WRITE there, with an "
                     "immediate where this side has to hear of it");
}

}  // namespace

PostStatus refuse_work(std::string& error, std::string sentence) {
  error = std::move(sentence);
  return PostStatus::kInvalid;
}

PostStatus check_list(const MemoryTable& memory, const WorkRequest& work, bool needs_write,
                      std::string& error, ListFacts& facts) {
  if (work.local.size() > kMaxSge)
    return refuse_work(error, absl::StrCat(name_of(work.kind), " with ", work.local.size(),
                                           " scatter/gather entries; at most ", kMaxSge));
  for (std::size_t i = 0; i < work.local.size(); ++i) {
    facts.bytes += work.local[i].bytes;
    if (work.is_inline) continue;
    const MemoryTable::Cover cover = memory.cover(work.local[i], needs_write);
    if (!cover.is_whole) return refuse_piece(work, i, needs_write, error);
    if (cover.is_line_ordered) facts.line_ordered |= 1U << i;
    facts.has_device = facts.has_device || cover.is_device;
  }
  if (facts.has_device && facts.line_ordered != 0)
    return refuse_work(error, absl::StrCat(name_of(work.kind),
                                           ": device memory and line-ordered memory in one list; "
                                           "post them apart"));
  if (work.is_inline && facts.bytes > kMaxInlineBytes)
    return refuse_work(
        error, absl::StrCat("inline ", name_of(work.kind), " of ", facts.bytes, " bytes; at most ",
                            kMaxInlineBytes, ": register the memory instead"));
  if (facts.bytes > kMaxMessageBytes)
    return refuse_work(error,
                       absl::StrCat(name_of(work.kind), " of ", facts.bytes, " bytes; at most ",
                                    kMaxMessageBytes, " (2^31) per message"));
  return PostStatus::kOk;
}

PostStatus check_request(const MemoryTable& memory, const WorkRequest& work, std::string& error,
                         ListFacts& facts) {
  const bool is_atomic = work.kind == OpKind::kFetchAdd || work.kind == OpKind::kCompareSwap;
  const bool writes_locally = is_atomic || work.kind == OpKind::kRead;
  if (work.is_inline && writes_locally)
    return refuse_work(
        error,
        absl::StrCat(name_of(work.kind), " cannot be inline: its result needs registered memory"));
  const PostStatus status = check_list(memory, work, writes_locally, error, facts);
  if (status != PostStatus::kOk) return status;
  if (is_atomic && (work.local.size() != 1 || work.local[0].bytes != 8))
    return refuse_work(error, absl::StrCat(name_of(work.kind),
                                           " needs one local entry of 8 bytes for the old value"));
  if (is_atomic && facts.has_device)
    return refuse_work(
        error, absl::StrCat(name_of(work.kind), ": the old value cannot go to device memory"));
  if (work.timeout < Duration{})
    return refuse_work(error, absl::StrCat(name_of(work.kind), ": the timeout is negative"));
  return PostStatus::kOk;
}

PostStatus check_receive(const MemoryTable& memory, const WorkRequest& work, std::string& error,
                         ListFacts& facts) {
  if (work.is_inline) return refuse_work(error, "a RECEIVE cannot be inline");
  return check_landing(memory, work, error, facts);
}

PostStatus check_shared_receive(const MemoryTable& memory, const WorkRequest& work,
                                std::string& error, ListFacts& facts) {
  if (work.kind != OpKind::kReceive || work.is_inline || work.timeout != Duration{})
    return refuse_work(error,
                       "a shared receive queue takes RECEIVEs only, without inline and "
                       "without timeout (nobody waits for a particular one)");
  return check_landing(memory, work, error, facts);
}

void fill_receive(PostedReceive& receive, const WorkRequest& work, const ListFacts& facts) {
  receive.user_data = work.user_data;
  receive.capacity_bytes = facts.bytes;
  receive.line_ordered = facts.line_ordered;
  receive.sge_count = static_cast<std::uint8_t>(work.local.size());
  std::copy(work.local.begin(), work.local.end(), receive.sge.begin());
}

void hold_all(MemoryTable& memory, std::span<const Sge> list) {
  for (const Sge& piece : list)
    memory.hold(piece.region);
}

void drop_all(MemoryTable& memory, std::span<const Sge> list) {
  for (const Sge& piece : list)
    memory.drop(piece.region);
}

void gather_inline(std::span<const Sge> list, std::byte* to) {
  for (const Sge& piece : list) {
    if (piece.bytes == 0) continue;
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
  }
}

Time deadline_of(const ConnectOptions& options, const WorkRequest& work, Time now) {
  const Duration timeout = work.timeout != Duration{} ? work.timeout : options.default_timeout;
  if (timeout == Duration{} || timeout > kNever - now) return kNever;
  return now + timeout;
}

}  // namespace spindrift
