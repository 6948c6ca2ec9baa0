#pragma once
// How a receiver tells a sender where its bytes belong: one line per receive, written into the ring
// of lines (the mailbox) that the sender offered when it connected. The ring is filled in
// order, 64 bytes at a time, and `sequence` becomes visible last (line-ordered memory).
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

struct MailboxLine {
  std::uint64_t key = 0;       // RemoteRegion::key of the buffer's region
  std::uint64_t offset = 0;    // bytes from its start
  std::uint64_t capacity = 0;  // bytes
  std::int32_t tag = 0;
  std::uint16_t group_index = 0;
  std::uint16_t group_count = 0;  // lines of one irecv, 1..kMaxReceives
  std::uint64_t unused[3] = {};
  std::uint64_t sequence = 0;  // of the line, from 1 on; never used again
};
static_assert(sizeof(MailboxLine) == 64 && offsetof(MailboxLine, sequence) == 56);

// As many as can be outstanding: a line is used again only after its receive has completed.
inline constexpr std::uint64_t kMailboxLines =
    std::uint64_t{kMaxRequests} * static_cast<std::uint64_t>(kMaxReceives);
inline constexpr std::size_t kMailboxBytes = kMailboxLines * sizeof(MailboxLine);

}  // namespace spindrift::nccl
