#pragma once
// MessageFabric: a medium that is reliable by itself. The messages of a peer arrive once, whole and
// in the order of posting, and where both sides allow it the memory of the peer can be read without
// its help. Shared memory implements it; RDMA queue pairs and libfabric endpoints fit it. Not
// thread-safe: one thread at a time, the one that runs the endpoint.
//
// A lane is what a path policy chooses from: a queue pair, an endpoint; media that have only one
// number it. Reads take the lane that the engine chose, and no order holds between them. A read
// that was lost may be asked for again by any lane: reads change nothing at the peer. Messages go
// as the fabric likes; what one of its lanes loses it sends again by itself, as long as the peer
// lives.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/memory.h"
#include "spindrift/result.h"
#include "spindrift/stats.h"
#include "spindrift/types.h"
#include "spindrift/work.h"

namespace spindrift {

// A peer as the fabric numbers it: 0..FabricCaps::max_peers - 1, used again after drop().
using FabricPeer = Id<struct FabricPeerTag, std::uint32_t>;

// Room for the engine's header in front of every message.
inline constexpr std::size_t kFabricHeaderBytes = 48;
// Of what the two sides tell each other while they connect.
inline constexpr std::size_t kFabricHelloBytes = 1024;

struct FabricCaps {
  std::string name;                     // the scheme of its addresses, "shm"
  std::uint32_t max_peers = 0;          // at a time
  std::uint32_t max_payload_bytes = 0;  // of one message
  std::uint32_t max_read_bytes = 0;     // of one read of the peer's memory; 0: there are none
  std::uint32_t read_from_bytes = 0;    // reads_from() where it is always the same
  // Bytes of one read, where the medium knows better than the engine (ConnectOptions::chunk_bytes);
  // 0: the engine's choice.
  std::uint32_t read_chunk_bytes = 0;
  std::uint16_t max_read_local = kMaxSge;   // pieces of FabricOp::local in one read
  std::uint16_t max_read_remote = kMaxSge;  // ... of FabricOp::remote
  std::uint32_t max_held = 1;               // messages of one peer that may be held unreleased
  std::uint16_t max_lanes = 1;              // per peer
  // kSend takes the lane that it names, and the fabric restores the order; else messages take a way
  // of the fabric's own and their lane means nothing.
  bool sprays_messages = false;
  Rate link_rate{};     // of all lanes of a peer together; zero: unknown
  Duration read_rtt{};  // of a short read on an idle network; zero: unknown
};

// Memory of a peer that it offers to be read.
struct RemoteSpan {
  std::uint64_t address = 0;
  std::uint64_t key = 0;  // as the fabric needs it; 0 where it needs none
  std::uint32_t bytes = 0;
};

struct FabricOp {
  enum class Kind : std::uint8_t {
    kSend,  // `header`, then the bytes of `local`; all may be reused when post() returns
    kRead,  // `remote` into `local`, equally long; completes by poll() with `tag`. The lists may be
            // reused when post() returns, the memory with the completion.
  };
  Kind kind = Kind::kSend;
  std::uint16_t lane = 0;  // 0..Reach::lanes - 1
  FabricPeer peer{};
  std::uint64_t tag = 0;                // any number
  std::span<const std::byte> header{};  // up to kFabricHeaderBytes
  std::span<const Sge> local{};         // up to kMaxSge pieces
  std::span<const RemoteSpan> remote{};
};

// `header` is written for messages alone. NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
struct FabricCompletion {
  enum class Kind : std::uint8_t {
    kMessage,  // `header` and `payload` came; release() it
    kRead,     // the read `tag` is over; every read that was posted ends so, drop() apart
    kStatus,   // status() of the peer says something new
    kLane,  // `lane` can carry nothing for now, or can again (`is_ok`); told once each, and never
            // before kAccepted or kOpened was polled. Lanes are up when a connection opens.
  };
  // Why a read failed. Whatever it is: nothing of it lands any more.
  enum class Fault : std::uint8_t {
    kNone,
    kLost,     // on its way: another try, or another lane, may succeed
    kRefused,  // the peer's memory may not be read so: it never will
  };
  Kind kind = Kind::kMessage;
  bool is_ok = true;  // kRead: the bytes are in place; kLane: up. The reason is last_error()
  Fault fault = Fault::kNone;  // kRead
  std::uint16_t lane = 0;      // kMessage: that it came by, if it matters; kRead, kLane
  FabricPeer peer{};
  std::uint64_t tag = 0;
  // A copy: what a peer can still change is never looked at twice.
  std::array<std::byte, kFabricHeaderBytes> header;
  std::span<const std::byte> payload{};  // valid until released; the peer may scribble over it
  std::uint64_t position = 0;            // the fabric's own
};

// A few numbers that each side shows the other: written and read in place, the latest counts, and
// each on its own.
struct FabricStatus {
  std::array<std::uint64_t, 4> words{};
};

struct FabricEvent {
  enum class Kind : std::uint8_t {
    kRequest,   // a peer wants to connect: accept() or refuse()
    kAccepted,  // our connect() was: messages may be sent
    kOpened,    // our accept() has reached the peer: messages may be sent
    kRefused,   // by the peer (`hello` says why) or by the circumstances (`cause`)
    kGone,      // everything that came before has been polled; drop() it
  };
  Kind kind = Kind::kRequest;
  FabricPeer peer{};
  std::uint16_t address = 0;       // kRequest: which of addresses() it called
  std::vector<std::byte> hello{};  // kRequest, kAccepted, kRefused
  std::string cause{};             // kRefused, kGone
};

class MessageFabric {
 public:
  virtual ~MessageFabric() = default;
  [[nodiscard]] virtual const FabricCaps& caps() const = 0;
  // Monotonic for real media, the test's or simulator's clock for others.
  [[nodiscard]] virtual Time now() const = 0;

  // Addresses, without the scheme. Set-up calls: they may allocate and call the kernel.
  // Empty: the fabric picks a free one. The result is the index in addresses(). Peers that call one
  // become kRequest; whether anybody listens there is the engine's to know.
  [[nodiscard]] virtual Result<std::uint16_t> add_address(std::string_view address) = 0;
  [[nodiscard]] virtual std::span<const std::string> addresses() const = 0;
  // ok, or why nobody can have such an address.
  [[nodiscard]] virtual Status check_address(std::string_view address) const = 0;

  // Peers. `hello` is up to kFabricHelloBytes of the engine's. kAccepted or kRefused follows; time
  // limits are the caller's. `lanes`, 1..max_lanes: how many this side would use; the fabric makes
  // what both sides can, at least one.
  [[nodiscard]] virtual Result<FabricPeer> connect(std::string_view address,
                                                   std::span<const std::byte> hello,
                                                   std::uint16_t lanes) = 0;
  [[nodiscard]] virtual Status accept(FabricPeer peer, std::span<const std::byte> hello,
                                      std::uint16_t lanes) = 0;
  // The peer reads `hello`; its number is free again.
  virtual void refuse(FabricPeer peer, std::span<const std::byte> hello) = 0;
  // Ends whatever there is, without the peer's help, which hears kGone. Reads that are under way
  // never land afterwards, and nothing of this peer is polled any more. The peer reads nothing of
  // ours any more either, unless it sees at once what set_status() has shown before. Its number is
  // free again.
  virtual void drop(FabricPeer peer) = 0;
  // "process 4711", for errors.
  [[nodiscard]] virtual std::string describe_peer(FabricPeer peer) const = 0;
  // What the two found out while they connected: whether they can read each other's memory, and how
  // many lanes there are between them. From kAccepted and kOpened on.
  struct Reach {
    bool reads_peer = false;
    bool is_read_by_peer = false;
    std::uint16_t lanes = 1;
  };
  [[nodiscard]] virtual Reach reach(FabricPeer peer) const = 0;
  // Messages to `peer` from this length on had better be read by it than sent, where it can; what
  // is faster may change. UINT32_MAX: none.
  [[nodiscard]] virtual std::uint32_t reads_from(FabricPeer /*peer*/) const {
    return caps().read_from_bytes;
  }
  // "lane 3 (mlx5_0 port 1, queue pair 4711, down: transport retries exceeded)", for errors and
  // reports: with the device's words while it is down.
  [[nodiscard]] virtual std::string describe_lane(FabricPeer /*peer*/, std::uint16_t lane) const {
    return "lane " + std::to_string(lane);
  }
  [[nodiscard]] virtual std::size_t poll_events(std::span<FabricEvent> out) = 0;

  // Registered memory, before it is named by an op or offered; kNoMemory and kUnsupported with a
  // sentence.
  [[nodiscard]] virtual Status add_region(LocalKey region, std::span<std::byte> bytes) = 0;
  // The same of device memory, from the beginning of a dma-buf; `bytes` are never touched by the
  // processor. Reads and offers alone name it.
  [[nodiscard]] virtual Status add_device_region(LocalKey /*region*/,
                                                 std::span<std::byte> /*bytes*/,
                                                 int /*dmabuf_fd*/) {
    return Error(ErrorCode::kUnsupported, caps().name +
                                              "://: this provider does not reach device memory "
                                              "(dma-buf). Register host memory and copy");
  }
  virtual void remove_region(LocalKey region) = 0;
  // What `peer` has to name to read `piece`, whose region is known. A fabric may tell the peer's
  // fabric of the region first, in front of the message that will carry this. Zero bytes: there is
  // no room for that now; asked again with the next turn.
  [[nodiscard]] virtual RemoteSpan offer(FabricPeer peer, const Sge& piece) = 0;

  // Takes a prefix of `ops`; a short count is back-pressure, never an error: the first one that was
  // not taken finds no room now. Where that is a read, reads by other lanes may find some.
  [[nodiscard]] virtual std::size_t post(std::span<const FabricOp> ops) = 0;
  // Fills a prefix of `out`; never blocks. After max_held unreleased messages of a peer, its next
  // ones stay where they are.
  [[nodiscard]] virtual std::size_t poll(std::span<FabricCompletion> out) = 0;
  // Messages of one peer are released in the order in which they came.
  virtual void release(const FabricCompletion& message) = 0;
  // Why the last read failed, or the last lane went down.
  [[nodiscard]] virtual std::string last_error(FabricPeer peer) const = 0;

  virtual void set_status(FabricPeer peer, const FabricStatus& status) = 0;
  // What the peer shows at this moment. The words may be anything: they are a peer's.
  [[nodiscard]] virtual FabricStatus status(FabricPeer peer) const = 0;

  // Sleeping. Readable when poll() or poll_events() would return something after arm().
  virtual void append_wait_fds(std::vector<int>& out) const = 0;
  // Asks every peer to wake us once, with the next thing it sends. False: something is there
  // already.
  [[nodiscard]] virtual bool arm() = 0;

  virtual void counters(CounterWriter& out) const = 0;
};

}  // namespace spindrift
