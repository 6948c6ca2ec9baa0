#include "sim/collective_run.h"

#include <utility>

namespace spindrift::sim {
namespace {

// Of one simulated job; there is no other that could be mistaken for it.
constexpr std::uint64_t kNonce = 1;

}  // namespace

// One after the other says farewell, while the others have their turns.
CollectiveRun::~CollectiveRun() {
  on_done_ = [](std::uint32_t, const Status&) {};
  for (Rank& rank : ranks_)
    rank.communicator.reset();
}

Status CollectiveRun::add_rank(Endpoint& endpoint, const TakeSeat& take_seat,
                               const CommunicatorOptions& options, WaitingEndpoint::Sleep sleep) {
  Rank rank;
  rank.endpoint = std::make_unique<WaitingEndpoint>(endpoint, std::move(sleep));
  auto seat = take_seat(*rank.endpoint, options);
  if (!seat.ok()) return seat.error();
  rank.seat = std::move(seat).value();
  ranks_.push_back(std::move(rank));
  return ok_status();
}

Status CollectiveRun::join() {
  std::vector<std::string> cards;
  for (const Rank& rank : ranks_)
    cards.push_back(rank.seat->card());
  for (Rank& rank : ranks_) {
    auto joined = rank.seat->join(cards, kNonce);
    if (!joined.ok()) return joined.error();
    rank.communicator = std::move(joined).value();
  }
  return ok_status();
}

Status CollectiveRun::start(std::uint32_t index, bool is_small) {
  Rank& rank = ranks_[index];
  rank.shape = shape_;
  if (is_small) rank.shape.count = shape_.ranks;
  const bool is_barrier = shape_.collective == Collective::kBarrier;
  rank.input = collective_input(rank.shape, index);
  rank.output = collective_output(rank.shape, index);
  const auto started = rank.communicator->start({.collective = rank.shape.collective,
                                                 .input = rank.input.data(),
                                                 .output = rank.output.data(),
                                                 .count = is_barrier ? 0 : rank.shape.count,
                                                 .algorithm = spec_.algorithm});
  if (!started.ok()) return started.error();
  rank.is_busy = true;
  return ok_status();
}

bool CollectiveRun::turn(std::uint32_t index) {
  if (index >= ranks_.size() || !ranks_[index].communicator) return false;
  Rank& rank = ranks_[index];
  const Status status = rank.communicator->progress();
  if (!rank.is_busy) return status.ok() && !rank.communicator->is_idle();
  if (status.ok() && !rank.communicator->is_done()) return !rank.communicator->is_idle();
  rank.is_busy = false;
  rank.communicator->forget_memory();
  on_done_(index, status);
  return true;
}

}  // namespace spindrift::sim
