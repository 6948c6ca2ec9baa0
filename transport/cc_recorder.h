#pragma once
// Records what a congestion control algorithm is told and what it decides: it stands between the
// flow and the algorithm, keeps every (event, limits) pair in memory and appends them to a file at
// the end. docs/SIMULATOR.md has the format; `spindrift sim --replay` reads it.
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/registry.h"

namespace spindrift {

class CcRecorder final : public CongestionControl {
 public:
  // More than this many events are not kept: about 200 MB.
  static constexpr std::size_t kMaxEvents = 1U << 20U;

  // ok when `file` can be appended to, or is empty: nothing will be recorded.
  [[nodiscard]] static Status check(const std::string& file);

  CcRecorder(std::unique_ptr<CongestionControl> recorded, const Registry::CcChoice& choice,
             const FlowInfo& flow, std::string file);
  CcRecorder(const CcRecorder&) = delete;
  CcRecorder& operator=(const CcRecorder&) = delete;
  // Appends the record, all at once: several connections and processes may share a file.
  ~CcRecorder() override;

  SendLimits initial() const override { return initial_; }
  SendLimits on_ack(const AckEvent& event) override;
  SendLimits on_loss(const LossEvent& event) override;
  SendLimits on_signal(Time now, const Signal& signal) override;
  void describe(StateWriter& out) const override { recorded_->describe(out); }

 private:
  struct TimedSignal {
    Time now{};
    Signal signal{};
  };
  struct Entry {
    std::variant<AckEvent, LossEvent, TimedSignal> event{};
    SendLimits limits{};
  };
  SendLimits keep(Entry entry);
  std::string head() const;
  static std::string line(const Entry& entry);

  std::unique_ptr<CongestionControl> recorded_;
  Registry::CcChoice choice_;
  FlowInfo flow_;
  std::string file_;
  const SendLimits initial_;  // before the first event
  std::vector<Entry> entries_;
  std::uint64_t left_out_ = 0;
};

}  // namespace spindrift
