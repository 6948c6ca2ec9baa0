#pragma once
// The side of a run that messages arrive at: counts them, posts RECEIVEs again, and with
// verification compares what arrived with what must have been sent.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/perf/messages.h"
#include "tools/perf/session.h"

namespace spindrift::perf {

class Receiver {
 public:
  Receiver(Session& session, const RunRequest& run);
  // What the peer is going to read or to add to.
  void fill_sources();

  // A completed RECEIVE: checked, counted, kept for repost().
  void on_receive_completed(const Completion& completion);
  void repost();
  // The peer asks whether a round of its writes is in place.
  void on_check(const nlohmann::json& message);
  // Answers the checks whose messages have all been counted.
  void answer_checks();

  std::uint64_t received(std::uint32_t connection) const { return lanes_[connection].received; }
  // Empty: all that was checked was right.
  const std::string& error() const { return error_; }

 private:
  struct Lane {
    std::uint64_t received = 0;
    std::uint64_t check_first = 0;
    std::uint64_t check_count = 0;  // zero: none asked
    std::vector<std::uint32_t> free_slots{};
  };

  void check_arrival(std::uint32_t connection, const Completion& completion);
  std::string check_round(std::uint32_t connection) const;
  void note_error(std::string sentence);

  Session& session_;
  RunRequest run_;
  RunPlan plan_;
  std::vector<Lane> lanes_;
  // Work to post; kept, so that no call has to clear it.
  std::array<Sge, 32> sges_{};
  std::array<WorkRequest, 32> work_{};
  std::string error_;
};

}  // namespace spindrift::perf
