#pragma once
// Two engines, the packets between them, and their applications, which know what must become of all
// work. Whoever drives it chooses every event: which packet arrives, is lost or comes twice, when
// time passes, when work is posted. The first broken rule stands in failure().
//
//   initiator A --- channel to B ---> target B        A and B also have work of their own
//               <-- channel to A ---
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/explore/loose_engine.h"

namespace spindrift::test {

enum class Side : std::uint8_t { kA, kB };
inline Side other(Side side) {
  return side == Side::kA ? Side::kB : Side::kA;
}

struct WorldConfig {
  EndpointConfig endpoint{};
  ConnectOptions options{};
  std::size_t channel_packets = 4;  // what is sent above that is lost
  // A defect put in on purpose, to see that it is found: the first completion of A vanishes.
  bool loses_a_completion = false;
};
// Small capacities, short limits, two paths, one packet of payload 512 bytes.
WorldConfig small_world();

class EngineWorld {
 public:
  explicit EngineWorld(const WorldConfig& config);
  ~EngineWorld();

  // The network.
  std::size_t packets_to(Side side) const { return channel(side).size(); }
  const Datagram& packet_to(Side side, std::size_t index) const { return channel(side)[index]; }
  void deliver(Side to, std::size_t index);
  void drop(Side to, std::size_t index);
  void repeat(Side to, std::size_t index);  // delivers, and keeps it under way
  void flip(Side to, std::size_t index, std::size_t byte);
  void inject(Side to, Datagram datagram);
  // To the next timer of either engine; false: there is none.
  bool advance();
  void pass(Duration time);

  // The applications. Each call is ignored where it makes no sense.
  void connect();
  bool may_accept() const;
  void accept();
  void reject();
  void post(Side side, OpKind kind, std::uint32_t bytes, Duration timeout = {});
  void post_receive(Side side);
  void close(Side side);
  void abort(Side side);
  void forget(Side side);  // the process starts again: a new engine that knows nothing
  // A host that is not A asks B for connections, or stops to.
  void flood(std::size_t hellos);
  void reject_flood();

  // From now on nothing is lost. Every operation must end, both sides must agree, and data must
  // flow where both are open; at last both close.
  void settle();
  const std::string& failure() const { return failure_; }

  LooseEngine& engine(Side side) { return *node(side).engine; }
  // The newest connection of this side that matters; null: none, or it was forgotten.
  Connection* connection(Side side);
  Time now() const { return now_; }
  bool has_lied = false;  // somebody forged packets: the two sides need not agree
  void describe(std::vector<std::uint64_t>& out);  // of the applications, for abstract states

 private:
  struct Work {
    OpKind kind = OpKind::kSend;
    OpStatus status = OpStatus::kOk;
    std::uint32_t bytes = 0;
    std::size_t at = 0;      // its local bytes, in the memory of its side
    std::size_t target = 0;  // where a WRITE goes, in the memory of the other side
    std::uint64_t adds_before = 0;
    bool has_deadline = false;
    bool must_succeed = false;
    bool is_done = false;
  };
  struct Node {
    std::unique_ptr<LooseEngine> engine{};
    std::vector<std::byte> memory{};
    MemoryRegion region{};
    std::size_t used = 0;
    std::deque<Datagram> incoming{};
    ConnId conn{};
    std::vector<Work> work{};               // of conn, by user_data
    std::vector<std::size_t> messages{};    // those of it that meet RECEIVEs, in posting order
    std::size_t received = 0;               // of the other side's messages
    std::vector<ConnEvent::Kind> events{};  // of conn
    std::uint64_t adds_posted = 0;
    std::uint64_t adds_done = 0;
    std::uint32_t incarnation = 0;
    bool is_stale = false;  // the other side has turned to another connection
  };

  Node& node(Side side) { return nodes_[static_cast<std::size_t>(side)]; }
  std::deque<Datagram>& channel(Side to) { return node(to).incoming; }
  const std::deque<Datagram>& channel(Side to) const {
    return nodes_[static_cast<std::size_t>(to)].incoming;
  }
  void fail(const std::string& sentence);
  void start(Side side);
  void turn(Side side);
  void take(Side side);
  void on_event(Side side, const ConnEvent& event);
  void on_completion(Side side, const Completion& one);
  void on_success(Side side, const Work& work, const Completion& one);
  void on_received(Side side, const Work& receive, const Completion& one);
  bool holds(Side side, std::size_t at, const Work& work) const;
  bool has_room(Side side, std::size_t bytes) const;
  std::size_t carve(Side side, std::size_t bytes);
  Connection* request_of_a();
  bool are_linked();
  void leave(Side side);
  bool has_unfinished_requests(Side side) const;
  std::size_t receives_missing(Side side) const;
  bool is_settled();
  bool run_until_settled();
  void check_agreement();
  void check_half(Side side);
  void close_both();
  void leave_both();

  WorldConfig config_;
  std::array<Node, 2> nodes_{};
  Time now_{std::chrono::hours(1)};
  std::uint64_t flooded_ = 0;
  std::string failure_;
  bool is_lossless_ = false;
  bool must_succeed_ = false;  // what is posted now has no reason to fail
  bool has_cause_ = false;     // an open connection may fail: an abort, a deadline, long silence
};

}  // namespace spindrift::test
