#pragma once
// Where this rank takes calls, and what it tells the others of that.
#include <vector>

#include "spindrift/collective.h"

#include "collectives/rendezvous.h"
#include "collectives/session.h"

namespace spindrift::collectives {

class Seating final {
 public:
  Seating() = default;
  // Stops listening, unless somebody has taken it.
  ~Seating();
  Seating(const Seating&) = delete;
  Seating& operator=(const Seating&) = delete;

  // Listens on the endpoints. That of this host may fail to: the network does for all, then.
  Status sit(Endpoint& network, const CommunicatorOptions& options);
  // Refused where the only endpoint does not reach all ranks.
  Status check(const Roster& roster) const;

  const Seat& seat() const { return seat_; }
  std::vector<Listening> take() { return std::exchange(listening_, {}); }

 private:
  Status listen(Endpoint& endpoint, const std::string& address, std::string& own);

  std::vector<Listening> listening_;
  Seat seat_;
};

}  // namespace spindrift::collectives
