#pragma once
// Collectives by the real collective layer: a Communicator on every host, all on one thread in
// simulated time. The layer is handed in (RunOptions::take_seat); nothing here is linked to it.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/seat.h"

#include "sim/collective_data.h"
#include "sim/simulation.h"
#include "sim/waiting_endpoint.h"

namespace spindrift::sim {

class CollectiveRun {
 public:
  // Somebody's call is over; ok, or why it failed.
  using OnDone = std::function<void(std::uint32_t rank, const Status& status)>;

  CollectiveRun(const WorkloadSpec& spec, std::uint32_t ranks, OnDone on_done)
      : spec_(spec), shape_(collective_shape(spec, ranks)), on_done_(std::move(on_done)) {}

  ~CollectiveRun();
  CollectiveRun(const CollectiveRun&) = delete;
  CollectiveRun& operator=(const CollectiveRun&) = delete;

  // The ranks in their order, then join().
  Status add_rank(Endpoint& endpoint, const TakeSeat& take_seat, const CommunicatorOptions& options,
                  WaitingEndpoint::Sleep sleep);
  Status join();
  // The rank's next call. With one element for each rank it only makes the connections.
  Status start(std::uint32_t rank, bool is_small);
  // One turn; true: it did something.
  bool turn(std::uint32_t rank);
  // What has come out of the rank's last call.
  bool is_right(std::uint32_t rank) const {
    return sim::is_right(ranks_[rank].shape, rank, ranks_[rank].output);
  }

 private:
  struct Rank {
    std::unique_ptr<WaitingEndpoint> endpoint;
    std::unique_ptr<CommunicatorSeat> seat;
    std::unique_ptr<Communicator> communicator;
    CollectiveShape shape{};
    std::vector<float> input;
    std::vector<float> output;
    bool is_busy = false;
  };

  const WorkloadSpec& spec_;
  const CollectiveShape shape_;
  OnDone on_done_;
  std::vector<Rank> ranks_;
};

}  // namespace spindrift::sim
