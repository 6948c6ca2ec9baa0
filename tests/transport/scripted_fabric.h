#pragma once
// A MessageFabric for tests and benchmarks: hosts joined in memory, in virtual time. Lanes take
// different time, end out of order, lose reads by a seed, and fail and return when told. What a
// network device would refuse (memory without its region, more pieces than it takes, a message it
// has no room for) is refused here too. Allocates nothing once it runs.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

#include "transport/base/ring.h"
#include "transport/base/rng.h"

namespace spindrift::test {

struct ScriptedOptions {
  std::uint16_t lanes = 8;
  std::uint16_t max_read_local = 4;
  std::uint16_t max_read_remote = 1;
  std::uint32_t max_read_bytes = 1U << 20U;
  std::uint32_t read_from_bytes = 16384;
  std::uint32_t slots = 96;          // messages of one direction that are not released
  std::uint32_t reads_per_lane = 8;  // posted
  std::uint32_t offer_refusals = 0;  // every so many offers there is no room; 0: never
  bool is_read = true;
  bool copies = true;                                  // false: reads bring nothing, for benchmarks
  double loss = 0;                                     // of reads, without their lane going down
  Duration delay = std::chrono::microseconds(2);       // of messages
  Duration read_least = std::chrono::microseconds(3);  // of reads, drawn for each
  Duration read_most = std::chrono::microseconds(12);
  // Bytes of one lane follow each other at this rate; zero: they do not.
  Rate lane_rate{};
  Rate link_rate = Rate::gbps(400);  // as the fabric says
  std::uint64_t seed = 1;
  // A sender that lies: changes a message that is on its way.
  std::function<void(std::span<std::byte> header, std::vector<std::byte>& payload)> tamper{};
};

class ScriptedNet {
 public:
  explicit ScriptedNet(const ScriptedOptions& options = {});
  ~ScriptedNet();
  // The next host. The net must outlive it.
  std::unique_ptr<MessageFabric> make();

  Time now() const { return now_; }
  Time next_event() const;  // kNever: none
  void advance_to(Time time);
  // Between all hosts: it fails at both ends with what is under way, or is up again.
  void set_lane(std::uint16_t lane, bool is_up);
  bool is_up(std::uint16_t lane) const { return is_up_[lane]; }
  // How much each lane has brought, everywhere.
  const std::vector<std::uint64_t>& lane_bytes() const { return lane_bytes_; }
  std::uint64_t reads_lost() const { return reads_lost_; }
  // The most that one side ever had under way, by one lane and in all.
  std::uint64_t most_lane_bytes() const { return most_lane_bytes_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  friend class ScriptedFabric;
  struct Pair;
  struct End;
  enum class EventKind : std::uint8_t {
    kCall,
    kAnswer,
    kRefuse,
    kConfirm,
    kFarewell,
    kMessage,
    kStatus,
    kRead
  };
  struct Event {
    Time at{};
    std::uint64_t order = 0;
    std::uint32_t pair = 0;
    std::uint32_t index = 0;  // kRead: of the read
    std::uint32_t era = 0;    // kRead: of its place
    std::uint8_t side = 0;    // that it comes to
    EventKind kind = EventKind::kCall;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  void schedule(Event event);
  void happen(const Event& event);
  void open(Pair& pair, End& end);
  void finish_read(Pair& pair, const Event& event);
  void lose_reads(Pair& pair, std::uint16_t lane);
  static void end_read(End& end, std::uint32_t index);

  ScriptedOptions options_;
  Time now_{std::chrono::seconds(1)};
  Rng rng_;
  std::vector<Event> events_;  // a heap
  std::uint64_t scheduled_ = 0;
  std::vector<class ScriptedFabric*> hosts_;
  std::map<std::string, std::pair<std::uint32_t, std::uint16_t>, std::less<>> names_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<bool> is_up_;
  std::vector<std::uint64_t> lane_bytes_;
  std::uint64_t reads_lost_ = 0;
  std::uint64_t most_lane_bytes_ = 0;
  std::uint64_t most_bytes_ = 0;
};

}  // namespace spindrift::test
