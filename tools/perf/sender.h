#pragma once
// The side of a bandwidth run that posts operations: keeps every connection's queue full, counts
// completions, and with verification proves reads and atomics itself and asks the peer about
// writes.
#include <array>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/perf/messages.h"
#include "tools/perf/session.h"
#include "tools/perf/statistics.h"

namespace spindrift::perf {

// Iterations of different runs never share a number, so that an old message never passes for a
// new one.
constexpr std::uint64_t first_iteration(std::uint64_t run_number) {
  return run_number << 32;
}

// One operation, ready to post; in place, since this is part of what is measured. `piece` must
// outlive the post.
void fill_request(const Session& session, const RunPlan& plan, std::uint32_t connection,
                  std::uint64_t iteration, Sge& piece, WorkRequest& work);

class Sender {
 public:
  Sender(Session& session, const RunRequest& run);
  void start(Time now);
  // Posts what fits. Cheap when nothing does.
  void post(Time now);
  void on_request_completed(const Completion& completion);
  // After each batch of completions.
  void count_batch(Time now);
  void on_checked(const nlohmann::json& message);
  // No new operations from now on; those in flight finish.
  void stop() { is_stopped_ = true; }
  bool is_done() const;

  const BandwidthMeter& meter() const { return meter_; }
  std::uint64_t posted(std::uint32_t connection) const { return lanes_[connection].posted; }
  std::uint64_t failed_checks() const { return failed_checks_; }

 private:
  static constexpr std::size_t kPostBatch = 32;
  struct Lane {
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    std::uint64_t checked = 0;  // by the peer
    bool is_checking = false;
  };

  void post_lane(std::uint32_t connection);
  std::uint64_t room(const Lane& lane) const;
  void prepare_slot(std::uint32_t connection, std::uint64_t iteration);
  void check_result(std::uint32_t connection, std::uint64_t iteration);
  void ask_for_check(std::uint32_t connection);

  Session& session_;
  RunRequest run_;
  RunPlan plan_;
  BandwidthMeter meter_;
  std::vector<Lane> lanes_;
  std::array<Sge, kPostBatch> pieces_{};
  std::array<WorkRequest, kPostBatch> work_{};
  Time stop_time_ = kNever;
  Time last_batch_{};
  std::uint64_t warmup_left_ = 0;  // completions of all connections
  std::uint64_t batch_completed_ = 0;
  std::uint64_t failed_checks_ = 0;
  bool checks_at_peer_ = false;  // writes: in rounds of as many messages as there are slots
  bool is_stopped_ = false;
};

}  // namespace spindrift::perf
