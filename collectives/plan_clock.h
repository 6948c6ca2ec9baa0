#pragma once
// When the messages of plans travel, if a message takes one unit of time and all else none.
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "spindrift/plan.h"

namespace spindrift::collectives {

bool is_near(const PlanTopology& topology, std::uint32_t a, std::uint32_t b);

// Messages between hosts count first, then those inside one.
struct Moment {
  std::uint32_t network = 0;
  std::uint32_t near = 0;
  constexpr auto operator<=>(const Moment&) const = default;
};

struct PlanMessage {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Moment start{};
  const Step* send = nullptr;     // of the plan of `from`
  const Step* receive = nullptr;  // of the plan of `to`
};

class PlanClock final {
 public:
  // The plans, which are right (plan_check.h), must outlive it.
  PlanClock(std::span<const Plan> plans, const PlanTopology& topology);
  // When the last step is over.
  Moment run();
  const std::vector<PlanMessage>& messages() const { return messages_; }

 private:
  bool advance(std::size_t rank, std::size_t lane_index);

  std::span<const Plan> plans_;
  const PlanTopology& topology_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> receivers_;
  std::vector<std::vector<std::vector<Moment>>> ends_;      // by rank, lane, step
  std::vector<std::vector<std::vector<Moment>>> arrivals_;  // of receiving lanes
  std::vector<PlanMessage> messages_;
  Moment last_{};
};

}  // namespace spindrift::collectives
