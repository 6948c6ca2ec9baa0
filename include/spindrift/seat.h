#pragma once
// A rank before its group exists: for programs that bring the ranks together themselves and must
// not block, such as a simulator with many ranks on one thread. Others call Communicator::create().
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "spindrift/collective.h"
#include "spindrift/export.h"

namespace spindrift {

class CommunicatorSeat {
 public:
  // Listens, as Communicator::create() does. `endpoint` must outlive the seat and what it becomes.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<CommunicatorSeat>> take(
      Endpoint& endpoint, const CommunicatorOptions& options);
  virtual ~CommunicatorSeat() = default;

  // What all ranks have to know of this one; any bytes.
  [[nodiscard]] virtual const std::string& card() const = 0;
  // Once. `cards` are those of all ranks, in their order; `nonce` is the same at all of them and no
  // other job's. Returns at once: a link is made when a call first needs it.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> join(
      std::span<const std::string> cards, std::uint64_t nonce) = 0;
};

}  // namespace spindrift
