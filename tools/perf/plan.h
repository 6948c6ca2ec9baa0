#pragma once
// What a test consists of and where its bytes lie. Both sides compute the same layout from the same
// description, so only one region key each has to cross the wire.
//
// One region per side; per connection:
//
//   | source slots        | target slots             | receive slots        |
//   | of SEND, WRITE;     | of the peer's WRITEs;    | of RECEIVEs (op send |
//   | of the peer's READs | of own READs and atomics | only)                |
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift::perf {

enum class Operation : std::uint8_t { kWrite, kWriteImm, kSend, kRead, kAtomic };
inline constexpr Operation kAllOperations[] = {Operation::kWrite, Operation::kWriteImm,
                                               Operation::kSend, Operation::kRead,
                                               Operation::kAtomic};
std::string_view to_string(Operation operation);  // "write-imm"
Result<Operation> parse_operation(std::string_view name);
// SEND and WRITE_WITH_IMM, which the peer sees as completions of its RECEIVEs.
bool uses_receives(Operation operation);

inline constexpr std::uint32_t kMaxDepth = 1024;
inline constexpr std::uint32_t kMaxTestConnections = 256;
inline constexpr std::uint64_t kAtomicBytes = 8;

struct TestShape {
  Operation operation = Operation::kWrite;
  std::vector<std::uint64_t> sizes{};  // bytes per message, ascending
  std::uint32_t depth = 0;             // messages in flight per connection; zero: by size
  std::uint32_t connections = 1;
  bool has_verify = false;
  bool is_bidirectional = false;
};

// One message size of a test.
struct RunPlan {
  std::uint64_t message_bytes = 0;
  std::uint64_t slot_bytes = 0;  // distance between slots
  std::uint32_t slots = 1;
  std::uint32_t depth = 1;
};

struct MemoryPlan {
  std::uint64_t source_bytes = 0;  // per connection, as the next two
  std::uint64_t target_bytes = 0;
  std::uint64_t receive_bytes = 0;
  std::uint64_t receive_slot_bytes = 0;  // length of each RECEIVE; zero for WRITE_WITH_IMM
  std::uint32_t receive_places = 1;      // slots that do not overlap
  std::uint32_t receives = 0;            // RECEIVEs kept posted
  std::uint32_t connections = 1;

  std::uint64_t connection_bytes() const { return source_bytes + target_bytes + receive_bytes; }
  std::uint64_t total_bytes() const { return connection_bytes() * connections; }
  std::uint64_t source_offset(std::uint32_t connection) const {
    return connection * connection_bytes();
  }
  std::uint64_t target_offset(std::uint32_t connection) const {
    return source_offset(connection) + source_bytes;
  }
  std::uint64_t receive_offset(std::uint32_t connection, std::uint32_t receive) const {
    return target_offset(connection) + target_bytes +
           (receive % receive_places) * receive_slot_bytes;
  }
};

// With verification every message in flight has a slot of its own, and the depth shrinks where
// that would take more than 256 MiB; without, messages share 4 MiB, which stay in the cache.
RunPlan plan_run(const TestShape& shape, std::uint64_t message_bytes);
MemoryPlan plan_memory(const TestShape& shape);

}  // namespace spindrift::perf
