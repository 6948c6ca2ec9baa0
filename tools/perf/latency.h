#pragma once
// One latency run on connection 0: ping-pong for SEND and both WRITEs (half the round trip is
// reported), post to completion for READ and atomics (all of it is reported), as perftest does.
#include <functional>
#include <optional>

#include "tools/perf/pattern.h"
#include "tools/perf/receiver.h"
#include "tools/perf/sender.h"
#include "tools/perf/session.h"
#include "tools/perf/statistics.h"

namespace spindrift::perf {

constexpr bool is_ping_pong(Operation operation) {
  return operation != Operation::kRead && operation != Operation::kAtomic;
}

class LatencyRun final : public CompletionSink {
 public:
  LatencyRun(Session& session, const RunRequest& run);
  ~LatencyRun() override { session_.sink = nullptr; }
  LatencyRun(const LatencyRun&) = delete;
  LatencyRun& operator=(const LatencyRun&) = delete;

  // The client's part. Ends early, and well, when `is_interrupted` says so.
  [[nodiscard]] Status measure(const std::function<bool()>& is_interrupted);
  // The server's part: returns pongs until the client says that it is over.
  [[nodiscard]] Status answer();

  LatencySummary summary() const;
  void on_completions(std::span<const Completion> completions) override;

 private:
  bool post_one(std::uint64_t iteration);
  bool has_arrived(std::uint64_t iteration);
  void check_written(std::uint64_t iteration);
  bool is_enough(std::uint64_t iteration, Time now, Time start) const;
  [[nodiscard]] Status finish(std::uint64_t iterations);
  PatternKey key(std::uint64_t iteration) const {
    return {.connection = 0, .iteration = first_iteration(run_.number) + iteration};
  }
  std::span<std::byte> target(std::uint64_t iteration) const;

  Session& session_;
  RunRequest run_;
  RunPlan plan_;
  Receiver receiver_;
  LatencyHistogram histogram_;
  std::optional<StampWatch> watch_;
  std::uint64_t watched_iteration_ = kNoLimit;
  std::uint64_t completed_ = 0;
};

}  // namespace spindrift::perf
