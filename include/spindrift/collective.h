#pragma once
// Collectives over endpoints: plans (who moves which chunk when), the store where ranks meet, and
// the Communicator that runs them.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/config.h"
#include "spindrift/endpoint.h"
#include "spindrift/export.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

inline constexpr std::uint32_t kMaxRanks = 64;

enum class DataType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
};
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kAverage };
// "float", "sum": the names nccl-tests prints.
SPINDRIFT_EXPORT std::string_view to_string(DataType type);
SPINDRIFT_EXPORT std::string_view to_string(ReduceOp op);
SPINDRIFT_EXPORT std::size_t bytes_of(DataType type);

// A plan is one rank's part of a collective: lanes that run side by side, each an ordered list of
// steps. Places are counted in chunks of the element count, never in bytes, so that one plan serves
// every count and type.
enum class BufferKind : std::uint8_t { kInput, kOutput };

struct ChunkRef {
  BufferKind buffer = BufferKind::kOutput;
  std::uint32_t chunk = 0;
  constexpr auto operator<=>(const ChunkRef&) const = default;
};

enum class StepKind : std::uint8_t {
  kSend,           // source goes to the lane's peer
  kReceive,        // target comes from the lane's peer
  kReceiveReduce,  // target = source (+) what comes from the lane's peer
  kCopy,           // target = source
};

struct StepRef {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
};

struct Step {
  StepKind kind = StepKind::kSend;
  ChunkRef source{};
  ChunkRef target{};
  std::uint32_t chunks = 1;  // consecutive chunks from source and target on
  // Steps of this rank that must have completed first. Two steps over the same elements wait slice
  // by slice, others as a whole.
  std::vector<StepRef> waits{};
};

// Steps start in order and complete in order; several may be under way at once. All of a lane are
// sends to its peer, or receives from it, or (without a peer) copies.
struct Lane {
  std::optional<std::uint32_t> peer{};
  std::uint32_t channel = 0;  // connections between the same two ranks are told apart by this
  std::vector<Step> steps{};
};

struct Plan {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t chunk_count = 1;
  std::vector<Lane> lanes{};
};

// Where the ranks of a job meet before they have connections: a small map of strings. Keys of up to
// kMaxKeyBytes, values of up to kMaxValueBytes.
class Store {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = 65536;
  virtual ~Store() = default;
  [[nodiscard]] virtual Status set(std::string_view key, std::string_view value) = 0;
  // Waits until somebody has set the key, at most `timeout` (kTimedOut).
  [[nodiscard]] virtual Result<std::string> get(std::string_view key, Duration timeout) = 0;
  // Adds to a counter that starts at zero and returns the new value.
  [[nodiscard]] virtual Result<std::int64_t> add(std::string_view key, std::int64_t amount) = 0;
};

struct CommunicatorOptions {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;  // 1..kMaxRanks
  // Where this rank listens, and what it tells the others; port 0 picks one. A wildcard address
  // does not do: others must be able to dial it.
  std::string address = "udp://127.0.0.1:0";
  // Prefix of this communicator's keys; a second communicator of a job takes another.
  std::string name = "world";
  ConnectOptions connection{};
  // Unit of pipelining: the same at all ranks, a multiple of 128 in 1024..16777216.
  std::uint32_t slice_bytes = 262144;
  std::uint32_t slices_in_flight = 8;  // per lane, 1..64
  // wait() polls for this long after something happened before it sleeps in the kernel. Zero where
  // ranks outnumber cores.
  Duration spin = std::chrono::microseconds(20);
  Duration setup_timeout = std::chrono::seconds(30);   // for all ranks to appear, 1 ms .. 1 h
  Duration stall_timeout = std::chrono::seconds(300);  // nothing moves in a collective: an error
};

// output[i] = op over all ranks of input[i]. Both may be the same memory (in place), or must not
// overlap. Count, type and op are the same at all ranks.
struct AllReduce {
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;  // elements; may be 0
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// One rank's membership of a group. Not thread-safe. Takes all events and completions of its
// endpoint, so the endpoint serves nothing else meanwhile. One collective at a time. An error is
// final: it names the rank, the peer, its address and the cause; the same one is returned from then
// on, and the buffers are no longer touched.
class Communicator {
 public:
  // Returns when this rank is connected to its neighbours, or says which rank is missing.
  // `endpoint` must outlive the communicator; `store` is used by this call only.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Communicator>> create(
      Endpoint& endpoint, Store& store, const CommunicatorOptions& options);
  virtual ~Communicator() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;

  // Non-blocking: start, then progress until is_done. The buffers belong to the collective until
  // then. Types and operations that are not there yet are refused (kUnsupported).
  [[nodiscard]] virtual Status start(const AllReduce& work) = 0;
  [[nodiscard]] virtual Status progress() = 0;
  [[nodiscard]] virtual bool is_done() const = 0;
  // Progress until done, sleeping while there is nothing to do.
  [[nodiscard]] virtual Status wait() = 0;
  [[nodiscard]] Status all_reduce(const AllReduce& work) {
    Status started = start(work);
    return started.ok() ? wait() : started;
  }

  // Buffers stay registered between calls, the least recently used are given up. Before their
  // memory is unmapped: forget it.
  virtual void forget_memory() = 0;
  // The connections to neighbours, for counters and reports.
  [[nodiscard]] virtual std::vector<ConnId> connections() const = 0;
  // Says farewell to the neighbours; at most the connections' close_timeout.
  virtual void close() = 0;
};

}  // namespace spindrift
