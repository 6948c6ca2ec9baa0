#pragma once
// One bandwidth run, on either side: a sender, a receiver, or both, and the talk that ends it.
//
//   client                               server
//     begin{run}            ->
//                           <-           begun              (it is ready to receive, and may send)
//     ...data, check/checked both ways...
//     sent{posted}          ->                              (all of the client's are completed)
//                           <-           result{...}        (all have arrived, its own are done)
#include <functional>
#include <optional>

#include <nlohmann/json.hpp>

#include "tools/perf/receiver.h"
#include "tools/perf/sender.h"
#include "tools/perf/session.h"

namespace spindrift::perf {

class BandwidthRun final : public CompletionSink {
 public:
  enum class Side { kClient, kServer };
  // Takes the session's completions from now until it is destroyed.
  BandwidthRun(Session& session, const RunRequest& run, Side side);
  ~BandwidthRun() override { session_.sink = nullptr; }
  BandwidthRun(const BandwidthRun&) = delete;
  BandwidthRun& operator=(const BandwidthRun&) = delete;

  // Runs to the end. `is_interrupted` is asked between turns (client only).
  [[nodiscard]] Status execute(const std::function<bool()>& is_interrupted,
                               const std::function<void(const BandwidthMeter&)>& on_progress);
  // The client's: both directions of a bidirectional test.
  BandwidthSummary summary() const;

  void on_completions(std::span<const Completion> completions) override;

 private:
  void take_messages();
  void on_message(const nlohmann::json& message);
  void note_announced(const nlohmann::json& message);
  nlohmann::json posted() const;
  bool has_received_all() const;
  bool tell_when_done();

  Session& session_;
  Side side_;
  Receiver receiver_;
  std::optional<Sender> sender_;
  std::vector<std::uint64_t> announced_;  // messages the peer sent, by connection; at its end
  BandwidthSummary peer_summary_{};
  bool has_told_ = false;
};

}  // namespace spindrift::perf
