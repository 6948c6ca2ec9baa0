#pragma once
// Collectives over endpoints: the store where ranks meet, what can be called, and the Communicator
// that runs it. Plans, which say who moves what when, are in plan.h.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/config.h"
#include "spindrift/endpoint.h"
#include "spindrift/export.h"
#include "spindrift/host_segments.h"
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
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
};
// Integers wrap around; the average of integers is rounded towards zero. Half precision is added in
// float and rounded to nearest even at each addition. Minimum and maximum of a NaN are a NaN.
enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kAverage };
// "float", "sum": the names nccl-tests prints.
SPINDRIFT_EXPORT std::string_view to_string(DataType type);
SPINDRIFT_EXPORT std::string_view to_string(ReduceOp op);
SPINDRIFT_EXPORT std::size_t bytes_of(DataType type);

// n ranks; `count` elements as below; rank r's part of a buffer of n x count elements starts at
// element r x count.
//                                input       output      in place is
enum class Collective : std::uint8_t {
  kAllReduce,      //             count       count       output == input
  kReduceScatter,  //             n x count   count       output == input + rank x count
  kAllGather,      //             count       n x count   input == output + rank x count
  kBroadcast,      //  at root    count       count       output == input (input only at the root)
  kReduce,         //             count       count       output == input (output only at the root)
  kAllToAll,       //             n x count   n x count   output == input
  kAllToAllV,      //             as input_counts and output_counts say; never in place
  kGather,         //             count       n x count   input == output + root x count at the root
  kScatter,        //             n x count   count       output == input + root x count at the root
  kBarrier,        //             none        none
  kSendReceive,    //             as `transfers` say
};
// "all_reduce", "all_to_all_v", ...: the names of the command line and of SPINDRIFT_ALGO.
SPINDRIFT_EXPORT std::string_view to_string(Collective collective);
SPINDRIFT_EXPORT Result<Collective> collective_from_text(std::string_view text);
SPINDRIFT_EXPORT std::span<const Collective> all_collectives();

// One message of a kSendReceive call. Messages between two ranks match in the order in which the
// two list them; a group may hold several, also to the own rank (a send and a receive).
struct Transfer {
  std::uint32_t peer = 0;
  bool is_send = false;
  void* data = nullptr;  // read only when is_send
  std::uint64_t count = 0;
};

// What one rank asks for. Collective, count, type, op, root and algorithm are the same at all ranks
// (kAllToAllV and kSendReceive: type; what one rank sends is what the other receives). Buffers may
// be the same memory as the table above says, or must not overlap.
struct CollectiveCall {
  Collective collective = Collective::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;  // elements; may be 0
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t root = 0;
  // kAllToAllV: elements to and from each rank, and where they start; ranks() entries each. Needed
  // until start() returns.
  std::span<const std::uint64_t> input_counts{};
  std::span<const std::uint64_t> input_offsets{};
  std::span<const std::uint64_t> output_counts{};
  std::span<const std::uint64_t> output_offsets{};
  std::span<const Transfer> transfers{};  // kSendReceive; needed until start() returns
  std::string_view algorithm{};           // by name; empty: the communicator chooses
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
  // A second endpoint for ranks that share a host ("shm://"; open_group() of open.h opens one),
  // which outlives the communicator. Two ranks of one host whom it does not connect talk over the
  // first, like all others. Null: the first endpoint reaches everybody.
  Endpoint* same_host = nullptr;
  std::string same_host_address = "shm://";
  // Memory that ranks of one host show one another, for small calls (open_host_segments();
  // open_group() opens one); outlives the communicator. Where some rank of a group has none, or
  // could not hand it over, that group sends messages. Null: this one has none.
  HostSegmentExchange* segments = nullptr;
  std::string host_id{};  // equal at ranks that share a host; empty: SPINDRIFT_HOST_ID, else the
                          // identity of this machine
  // Prefix of this communicator's keys; a second communicator of a job takes another.
  std::string name = "world";
  ConnectOptions connection{};
  // Largest unit of pipelining: the same at all ranks, a multiple of 128 in 1024..16777216.
  std::uint32_t slice_bytes = 262144;
  std::uint32_t slices_in_flight = 24;  // per lane, 2..64
  // When nothing comes, wait() polls for `spin` (not at all where the ranks of this host outnumber
  // its cores), then polls and lets others have its core in between, for `yield`, and then sleeps
  // in the kernel. Both 0 .. 1 s.
  Duration spin = std::chrono::microseconds(20);
  Duration yield = std::chrono::microseconds(500);
  Duration setup_timeout = std::chrono::seconds(30);  // for all ranks to appear, 1 ms .. 1 h
  // Nothing moves in a collective for so long: an error. 1 ms .. 30 days.
  Duration stall_timeout = std::chrono::seconds(300);
  // Called with a sentence about what works, but not as one would expect: ranks of one host that
  // cannot share memory. By the thread that drives the communicator; once for each cause.
  std::function<void(const std::string& sentence)> on_note{};

  // "all_reduce:ring;broadcast:tree" or "ring" (wherever there is one); the same at all ranks.
  // Empty: SPINDRIFT_ALGO, else by the cost model.
  std::string algorithm{};
  // Reductions take the inputs in the order of the ranks: for one number of ranks the result is the
  // same whatever algorithm, slice size or timing. Only algorithms that keep that order are used.
  bool is_deterministic = false;
};

// How an algorithm was chosen.
struct AlgorithmChoice {
  struct Candidate {
    std::string name;
    double steps = 0;         // messages one after the other
    double bytes = 0;         // that one rank sends, at most
    double predicted_us = 0;  // by the cost model
    std::string excluded;     // why it was not looked at; empty: it was
  };
  std::string algorithm;
  std::string reason;
  std::vector<Candidate> candidates;
};

// How this rank reaches another one.
struct RankLink {
  std::uint32_t rank = 0;  // in the communicator
  std::string address;     // of the other rank: "shm://4711-12", "udp://10.0.0.2:4000"
  bool is_open = false;    // connected; a link is made when a call first needs it
  std::string note;        // why it is the network although both share a host; mostly empty
  Endpoint* endpoint = nullptr;
  ConnId conn{};  // of `endpoint`; zero before there is one
};

// One call under way. Ids of a communicator rise in start order.
using WorkId = Id<struct WorkTag, std::uint64_t>;

// Why a communicator has ended.
struct CommunicatorFailure {
  Error error;
  std::optional<std::uint32_t> rank;  // who failed first, where that is known
};

// One rank's membership of a group. Not thread-safe. Takes all events and completions of its
// endpoint, so the endpoint serves nothing else meanwhile. Calls match by order: all ranks start
// the same calls in the same order; up to kMaxInFlight may be under way at once. An error of a call
// under way is final for the communicator, and the ranks tell one another: it names the rank that
// failed, its address and the cause. The same one is returned from then on, and the buffers are no
// longer touched.
class Communicator {
 public:
  static constexpr std::uint32_t kMaxInFlight = 256;

  // Returns when all ranks have appeared and this one is connected to its neighbours, or says which
  // rank is missing. Other connections are made when a call first needs them. `endpoint` must
  // outlive the communicator; `store` is used by this call only.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Communicator>> create(
      Endpoint& endpoint, Store& store, const CommunicatorOptions& options);
  virtual ~Communicator() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;

  // Non-blocking: start, then progress until is_done. The buffers belong to the call until then. A
  // call that is refused (kInvalidArgument, kUnsupported; kUnavailable above kMaxInFlight) was not
  // started and harms nothing here, but the other ranks will wait for it.
  [[nodiscard]] virtual Result<WorkId> start(const CollectiveCall& call) = 0;
  // One bounded turn. Never blocks.
  [[nodiscard]] virtual Status progress() = 0;
  // Nothing came in the last progress(), and without news there is nothing to do: another would be
  // in vain before the endpoint has something.
  [[nodiscard]] virtual bool is_idle() const = 0;
  // Also true after a failure.
  [[nodiscard]] virtual bool is_done(WorkId work) const = 0;
  [[nodiscard]] virtual bool is_done() const = 0;  // everything started
  // Progress until done, sleeping while there is nothing to do.
  [[nodiscard]] virtual Status wait(WorkId work) = 0;
  [[nodiscard]] virtual Status wait() = 0;  // for everything started
  // For loops of their own: sleeps until there may be something to progress, at most `timeout`; or
  // until `wake_fd` is readable, if there is one.
  virtual void sleep(Duration timeout, int wake_fd = -1) = 0;

  // Start and wait.
  [[nodiscard]] Status run(const CollectiveCall& call) {
    const Result<WorkId> work = start(call);
    return work.ok() ? wait(work.value()) : Status(work.error());
  }
  [[nodiscard]] Status all_reduce(const CollectiveCall& call) {
    return run_as(Collective::kAllReduce, call);
  }
  [[nodiscard]] Status reduce_scatter(const CollectiveCall& call) {
    return run_as(Collective::kReduceScatter, call);
  }
  [[nodiscard]] Status all_gather(const CollectiveCall& call) {
    return run_as(Collective::kAllGather, call);
  }
  [[nodiscard]] Status broadcast(const CollectiveCall& call) {
    return run_as(Collective::kBroadcast, call);
  }
  [[nodiscard]] Status reduce(const CollectiveCall& call) {
    return run_as(Collective::kReduce, call);
  }
  [[nodiscard]] Status all_to_all(const CollectiveCall& call) {
    return run_as(Collective::kAllToAll, call);
  }
  [[nodiscard]] Status all_to_all_v(const CollectiveCall& call) {
    return run_as(Collective::kAllToAllV, call);
  }
  [[nodiscard]] Status gather(const CollectiveCall& call) {
    return run_as(Collective::kGather, call);
  }
  [[nodiscard]] Status scatter(const CollectiveCall& call) {
    return run_as(Collective::kScatter, call);
  }
  [[nodiscard]] Status barrier() { return run_as(Collective::kBarrier, {}); }
  [[nodiscard]] Status send_receive(DataType type, std::span<const Transfer> transfers) {
    CollectiveCall call{.collective = Collective::kSendReceive, .type = type};
    call.transfers = transfers;
    return run(call);
  }

  // What start() would choose for this call, and why. Buffers are not looked at. Transfers of
  // kSendReceive leave nothing to choose: each goes straight to its receiver.
  [[nodiscard]] virtual Result<AlgorithmChoice> explain(const CollectiveCall& call) const = 0;

  // A call of all ranks, in order with their others; blocks. Ranks that give the same colour form a
  // new communicator, ordered by `key`, then by rank; a negative colour takes no part and gets a
  // null pointer. It shares the connections: close it before this one.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> split(std::int32_t color,
                                                                    std::int32_t key) = 0;
  [[nodiscard]] Result<std::unique_ptr<Communicator>> duplicate() {
    return split(0, static_cast<std::int32_t>(rank()));
  }

  // Ends everything here at once and tells the other ranks; the communicator has failed then.
  virtual void abort(std::string_view reason) = 0;
  [[nodiscard]] virtual const std::optional<CommunicatorFailure>& failure() const = 0;
  // After a failure: a new communicator of `survivors` (ranks of this one, ascending, own rank
  // among them), over the same endpoint. All survivors call it with the same list; they meet in
  // `store` within setup_timeout. This one and all split from it are closed by that.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> shrink(
      Store& store, std::span<const std::uint32_t> survivors) = 0;

  // Buffers stay registered between calls, the least recently used are given up. Before their
  // memory is unmapped: forget it.
  virtual void forget_memory() = 0;
  // To all other ranks, in their order: for counters and reports.
  [[nodiscard]] virtual std::vector<RankLink> links() const = 0;
  // Says farewell to the others; at most the connections' close_timeout.
  virtual void close() = 0;
  // Whether this process was forked from the one that made the communicator. A child cannot use it:
  // every call is an error that says so, and nothing it does, its destructor neither, harms the
  // parent. Its endpoints must be left alone (OpenedGroup does), and it may make others.
  [[nodiscard]] virtual bool is_in_child() const = 0;

 private:
  Status run_as(Collective collective, CollectiveCall call) {
    call.collective = collective;
    return run(call);
  }
};

}  // namespace spindrift
