#pragma once
// The paths (entropy values) of one connection: which may be used, which must be probed, what each
// has carried. The policy proposes (PathSelector), the table disposes.
//
//   GOOD --trim, loss--> SKIP (passed over once, or until a short time has passed) --> GOOD
//   SKIP --a loss again--> SKIP (until a longer time has passed) --> GOOD
//   GOOD/SKIP --two bursts in a row entirely lost, at least three packets--> BAD
//   BAD --a probe or any packet arrives--> GOOD    any --operator--> DENIED --operator--> GOOD
//
// Marks are the policy's to judge: a network that is loaded marks on every path.
// Random loss of 1 % must never leave the usable set empty or small. When every path is BAD the
// table still proposes them in turn: data is the best probe there is.
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "spindrift/path_selector.h"

#include "transport/paths/path_set.h"

namespace spindrift {

enum class PathState : std::uint8_t { kGood, kSkip, kBad, kDenied };

struct PathCounters {
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_lost = 0;
  std::uint64_t packets_marked = 0;
  std::uint64_t times_bad = 0;
  Duration rtt{};      // smoothed (gain 1/8); zero: none yet
  Duration rtt_min{};  // zero: none yet
};

class PathTable {
 public:
  // `path_count` is 1..kMaxPaths and the one the selector was made for.
  PathTable(std::unique_ptr<PathSelector> selector, std::uint32_t path_count);

  // `counter` must outlive the table. Counts picks of the selector that are no path; they are
  // passed over.
  void count_wild_picks_in(std::uint64_t& counter) { wild_picks_ = &counter; }

  std::uint32_t size() const { return static_cast<std::uint32_t>(paths_.size()); }
  // A path for the next burst; nothing only when all are DENIED.
  [[nodiscard]] std::optional<PathId> pick(Time now);
  // What was sent on `path` since it was picked; may come in several calls.
  void on_sent(PathId path, std::uint32_t packets, std::uint64_t bytes);
  // `rto` is the connection's current retransmission timeout: it scales SKIP times and probing.
  void on_feedback(std::span<const PathFeedback> feedback, Time now, Duration rto);

  // When a BAD path is due for a probe; kNever: none.
  [[nodiscard]] Time next_probe() const;
  // A BAD path to probe now, at most one per call; its next probe is then due later (interval
  // doubles from one RTO to at most 50 ms). Nothing when none is due.
  [[nodiscard]] std::optional<PathId> take_due_probe(Time now);
  void on_probe_reply(PathId path, Duration rtt);

  // The device says that its link is down: a path that was usable becomes BAD (true). What arrives
  // now was sent before, and does not restore it; the reply to a probe does.
  bool on_link_down(PathId path, Time now, Duration rto);
  // It is up again: a BAD path is due for its probe now.
  void on_link_up(PathId path, Time now);

  void deny(PathId path, bool is_denied);
  PathState state(PathId path) const { return paths_[path.value].state; }
  // Whether the next packet that arrives by it makes it usable again.
  bool awaits_arrival(PathId path) const {
    return state(path) == PathState::kBad && !paths_[path.value].is_link_down;
  }
  // When it became BAD; of a BAD path only.
  Time bad_since(PathId path) const { return paths_[path.value].bad_since; }
  // Since anything arrived on it.
  std::uint64_t lost_in_row_packets(PathId path) const {
    return paths_[path.value].lost_in_row_packets;
  }
  std::uint32_t usable() const { return usable_.size(); }  // GOOD or SKIP
  const PathCounters& counters(PathId path) const { return paths_[path.value].counters; }
  void describe(StateWriter& out) const;
  // Largest and smallest smoothed RTT over paths with a sample that are usable; zero: none.
  Duration slowest_rtt() const;
  Duration fastest_rtt() const;

 private:
  struct Path {
    PathCounters counters;
    PathState state = PathState::kGood;
    Time skip_until{};
    std::uint32_t burst_packets = 0;  // recent burst size, shrinking slowly
    std::uint32_t open_burst_packets = 0;
    std::uint64_t lost_in_row_packets = 0;
    bool is_link_down = false;
    Time bad_since{};
    Time probe_due = kNever;
    Duration probe_interval{};
  };

  static std::uint32_t burst_size(const Path& path);
  // More than its last burst, and nothing arrived in between.
  static bool has_lost_again(const Path& path);
  bool takes(Path& path, Time now);
  PathId fall_back(Time now);
  PathId start_burst(PathId id);
  void on_arrival(PathId id, Duration rtt);
  void on_loss(PathId id, std::uint32_t packets, Time now, Duration rto);
  void skip(Path& path, Time now, Duration rto);
  void add_rtt(PathId id, Duration rtt);
  void set_bad(PathId id, Time now, Duration rto);
  void set_usable(PathId id);
  void refresh_rtt_range() const;

  std::unique_ptr<PathSelector> selector_;
  std::vector<Path> paths_;
  std::uint64_t* wild_picks_ = nullptr;
  PathSet usable_;
  PathSet bad_;
  mutable Time next_probe_ = kNever;  // of all BAD paths
  mutable bool is_next_probe_known_ = true;
  // The range is looked up for every acknowledgement, but only a change at one of its two ends (one
  // sample in n/2) asks for a new scan.
  mutable PathId slowest_{};
  mutable PathId fastest_{};
  mutable bool has_rtt_ = false;
  mutable bool is_rtt_range_known_ = true;
};

}  // namespace spindrift
