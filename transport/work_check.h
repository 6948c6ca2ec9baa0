#pragma once
// Work requests judged before any engine takes them: scatter/gather lists, lengths, rights. What is
// wrong is said in a sentence.
#include <cstdint>
#include <span>
#include <string>

#include "spindrift/config.h"
#include "spindrift/work.h"

#include "transport/memory_table.h"
#include "transport/receive_queue.h"

namespace spindrift {

// What a scatter/gather list comes to.
struct ListFacts {
  std::uint64_t bytes = 0;
  std::uint32_t line_ordered = 0;  // bit per piece
  bool has_device = false;         // memory that the processor must not touch
};

// kInvalid; the sentence goes to `error`.
PostStatus refuse_work(std::string& error, std::string sentence);
// What holds for every kind: the list.
PostStatus check_list(const MemoryTable& memory, const WorkRequest& work, bool needs_write,
                      std::string& error, ListFacts& facts);
// A SEND, WRITE, READ or atomic.
PostStatus check_request(const MemoryTable& memory, const WorkRequest& work, std::string& error,
                         ListFacts& facts);
// A RECEIVE of a connection, or of a shared queue.
PostStatus check_receive(const MemoryTable& memory, const WorkRequest& work, std::string& error,
                         ListFacts& facts);
PostStatus check_shared_receive(const MemoryTable& memory, const WorkRequest& work,
                                std::string& error, ListFacts& facts);

// `receive` is as new.
void fill_receive(PostedReceive& receive, const WorkRequest& work, const ListFacts& facts);
void hold_all(MemoryTable& memory, std::span<const Sge> list);
void drop_all(MemoryTable& memory, std::span<const Sge> list);
// The bytes of the list, one after the other, at `to`.
void gather_inline(std::span<const Sge> list, std::byte* to);

Time deadline_of(const ConnectOptions& options, const WorkRequest& work, Time now);

}  // namespace spindrift
