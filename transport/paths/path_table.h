#pragma once
// The paths (entropy values) of one connection: which may be used, which must be probed, what each
// has carried. The policy proposes (PathSelector), the table disposes.
//
//   GOOD --mark, trim, loss--> SKIP (passed over once, or until a short time has passed) --> GOOD
//   GOOD/SKIP --a whole RTO without acknowledgement, or two bursts in a row entirely lost--> BAD
//   BAD --a probe returns--> GOOD          any --operator--> DENIED --operator--> GOOD
//
// Random loss of 1 % must never leave the usable set empty or small. When every path is BAD the table
// still proposes them in turn: data is the best probe there is.
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "spindrift/path_selector.h"

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
  PathTable(std::unique_ptr<PathSelector> selector, std::uint32_t path_count);

  std::uint32_t size() const;
  // A path for the next burst; nothing only when all are DENIED.
  [[nodiscard]] std::optional<PathId> pick(Time now);
  void on_sent(PathId path, std::uint32_t packets, std::uint64_t bytes);
  // `rto` is the connection's current retransmission timeout: it scales SKIP times and probing.
  void on_feedback(std::span<const PathFeedback> feedback, Time now, Duration rto);

  // When a BAD path is due for a probe; kNever: none.
  [[nodiscard]] Time next_probe() const;
  // A BAD path to probe now, at most one per call; its next probe is then due later (interval doubles
  // from one RTO to at most 100 ms). Nothing when none is due.
  [[nodiscard]] std::optional<PathId> take_due_probe(Time now);
  void on_probe_reply(PathId path, Duration rtt, Time now);

  void deny(PathId path, bool is_denied);
  PathState state(PathId path) const;
  std::uint32_t usable() const;  // GOOD or SKIP
  const PathCounters& counters(PathId path) const;
  void describe(StateWriter& out) const;
  // Largest and smallest smoothed RTT over paths with a sample that are not BAD; zero: none.
  Duration slowest_rtt() const;
  Duration fastest_rtt() const;
};

}  // namespace spindrift
