#pragma once
// One host of a ScriptedNet, and what it knows of each connection. Internal to the scripted fabric.
#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/transport/scripted_fabric.h"

namespace spindrift::test {

// Status words under way to one side.
inline constexpr std::size_t kStatuses = 1024;

inline std::uint32_t bytes_of(const auto& pieces) {
  std::uint32_t sum = 0;
  for (const auto& piece : pieces)
    sum += piece.bytes;
  return sum;
}

// One side of a connection.
struct ScriptedNet::End {
  struct Message {
    std::array<std::byte, kFabricHeaderBytes> header{};
    std::uint16_t lane = 0;
    std::vector<std::byte> payload{};
  };
  struct Read {
    std::uint64_t tag = 0;
    std::uint32_t era = 0;
    std::uint32_t bytes = 0;
    std::uint16_t lane = 0;
    std::uint8_t locals = 0;
    std::uint8_t remotes = 0;
    bool is_posted = false;
    std::array<Sge, kMaxSge> local{};
    std::array<RemoteSpan, kMaxSge> remote{};
  };
  struct Done {
    std::uint64_t tag = 0;
    std::uint16_t lane = 0;
    FabricCompletion::Fault fault = FabricCompletion::Fault::kNone;
  };
  struct LaneNews {
    std::uint16_t lane = 0;
    bool is_up = false;
  };
  explicit End(const ScriptedOptions& options)
      : incoming(options.slots),
        reads(std::size_t{options.lanes} * options.reads_per_lane),
        done(reads.size() + 1),
        news(2 * std::size_t{options.lanes}),
        coming(kStatuses),
        posted_reads(options.lanes, 0),
        posted_bytes(options.lanes, 0),
        lane_free(options.lanes) {
    for (std::size_t i = reads.size(); i != 0; --i)
      free_reads.push_back(static_cast<std::uint32_t>(i - 1));
  }

  class ScriptedFabric* host = nullptr;
  FabricPeer peer{};
  std::uint16_t address = 0;  // of the host, that was called
  std::uint16_t lanes_wanted = 1;
  bool is_open = false;
  bool is_dropped = false;
  bool is_gone = false;  // the other side dropped it, and all that it sent has come
  bool is_gone_told = false;
  std::vector<std::byte> hello{};  // for the other side
  // Messages towards this side: released, polled, arrived, posted.
  std::vector<Message> incoming;
  std::uint64_t released = 0;
  std::uint64_t polled = 0;
  std::uint64_t arrived = 0;
  std::uint64_t posted = 0;
  std::vector<Read> reads;
  std::vector<std::uint32_t> free_reads;
  Ring<Done> done;
  Ring<LaneNews> news;
  Ring<FabricStatus> coming;  // towards this side
  FabricStatus status{};      // that it sees
  FabricStatus seen{};
  std::vector<std::uint32_t> posted_reads;  // by lane
  std::vector<std::uint64_t> posted_bytes;  // the same
  std::uint64_t all_posted_bytes = 0;
  std::vector<Time> lane_free;  // when the last bytes of a lane have passed
  std::string error{};
};

struct ScriptedNet::Pair {
  explicit Pair(const ScriptedOptions& options) : ends{End(options), End(options)} {}
  std::array<End, 2> ends;
  std::uint16_t lanes = 1;
};

class ScriptedFabric final : public MessageFabric {
 public:
  using End = ScriptedNet::End;
  using Pair = ScriptedNet::Pair;
  using Kind = ScriptedNet::EventKind;

  ScriptedFabric(ScriptedNet& net, std::uint32_t number);
  ~ScriptedFabric() override;

  const FabricCaps& caps() const override { return caps_; }
  Time now() const override { return net_.now(); }
  Result<std::uint16_t> add_address(std::string_view address) override;
  std::span<const std::string> addresses() const override { return names_; }
  Status check_address(std::string_view address) const override;

  Result<FabricPeer> connect(std::string_view address, std::span<const std::byte> hello,
                             std::uint16_t lanes) override;
  Status accept(FabricPeer peer, std::span<const std::byte> hello, std::uint16_t lanes) override;
  void refuse(FabricPeer peer, std::span<const std::byte> hello) override;
  void drop(FabricPeer peer) override;
  std::string describe_peer(FabricPeer peer) const override;
  Reach reach(FabricPeer peer) const override;
  std::string describe_lane(FabricPeer /*peer*/, std::uint16_t lane) const override;
  std::size_t poll_events(std::span<FabricEvent> out) override;

  Status add_region(LocalKey region, std::span<std::byte> bytes) override;
  // `dmabuf_fd` may be of any memory that can be mapped.
  Status add_device_region(LocalKey region, std::span<std::byte> bytes, int dmabuf_fd) override;
  void remove_region(LocalKey region) override;
  RemoteSpan offer(FabricPeer /*peer*/, const Sge& piece) override;
  // Whether the memory lies in the region.
  bool covers(std::uint64_t region, std::uint64_t address, std::uint64_t bytes) const;

  // Where the bytes of a region lie for a device that reads or writes them.
  std::byte* seen_by_device(std::uint64_t region, std::uint64_t address) const;

  std::size_t post(std::span<const FabricOp> ops) override;
  std::size_t poll(std::span<FabricCompletion> out) override;
  void release(const FabricCompletion& message) override;
  std::string last_error(FabricPeer peer) const override { return own(peers_[peer.value]).error; }

  void set_status(FabricPeer peer, const FabricStatus& status) override;
  FabricStatus status(FabricPeer peer) const override { return own(peers_[peer.value]).status; }
  void append_wait_fds(std::vector<int>& /*out*/) const override {}
  bool arm() override { return true; }
  void counters(CounterWriter& out) const override {
    out.counter("scripted_reads_lost", net_.reads_lost_);
  }

  FabricPeer add_caller(Pair& pair, std::uint32_t number);
  void tell_engine(FabricEvent event) { events_.push_back(std::move(event)); }

 private:
  struct Ref {
    Pair* pair = nullptr;
    std::uint32_t number = 0;
    std::uint8_t side = 0;
  };
  static End& own(const Ref& ref) { return ref.pair->ends[ref.side]; }
  static End& other(const Ref& ref) { return ref.pair->ends[1 - ref.side]; }
  FabricPeer take_number(const Ref& ref);
  void forget(FabricPeer peer);
  void tell(std::uint32_t pair, int side, Kind kind);

  bool post_send(const Ref& ref, const FabricOp& op);
  bool post_read(const Ref& ref, const FabricOp& op);
  Time when_read(End& end, std::uint16_t lane, std::uint32_t bytes);
  static std::size_t poll_end(End& end, std::span<FabricCompletion> out);

  ScriptedNet& net_;
  std::uint32_t number_;
  FabricCaps caps_;
  std::vector<std::string> names_;
  std::vector<Ref> peers_;
  std::deque<FabricEvent> events_;
  std::map<std::uint32_t, std::span<std::byte>> regions_;
  std::map<std::uint32_t, std::byte*> device_memory_;  // of regions of such: as the device has it
  std::uint64_t offers_ = 0;
};

}  // namespace spindrift::test
