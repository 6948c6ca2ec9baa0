#include "spindrift/seat.h"

#include <utility>

#include <absl/strings/str_format.h>

#include "collectives/communicator.h"
#include "collectives/rendezvous.h"
#include "collectives/seating.h"

namespace spindrift {
namespace {

using namespace collectives;

class GroupSeat final : public CommunicatorSeat {
 public:
  explicit GroupSeat(const CommunicatorOptions& options) : options_(options) {}
  Status sit(Endpoint& endpoint) {
    Status status = seating_.sit(endpoint, options_);
    card_ = to_text(seating_.seat());
    return status;
  }

  const std::string& card() const override { return card_; }
  Result<std::unique_ptr<Communicator>> join(std::span<const std::string> cards,
                                             std::uint64_t nonce) override {
    if (cards.size() != options_.ranks) {
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%d cards for %d ranks", cards.size(), options_.ranks));
    }
    Roster roster{.nonce = nonce, .seats = {}};
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
      Result<Seat> seat = seat_from_text(cards[rank], rank);
      if (!seat.ok()) return seat.error();
      roster.seats.push_back(std::move(seat).value());
    }
    if (Status status = seating_.check(roster); !status.ok()) return status.error();
    return assemble({.listening = seating_.take(), .roster = std::move(roster)}, options_, false);
  }

 private:
  const CommunicatorOptions options_;
  Seating seating_;
  std::string card_;
};

}  // namespace

Result<std::unique_ptr<CommunicatorSeat>> CommunicatorSeat::take(
    Endpoint& endpoint, const CommunicatorOptions& options) {
  if (Status status = check_options(options); !status.ok()) return status.error();
  auto seat = std::make_unique<GroupSeat>(options);
  if (Status status = seat->sit(endpoint); !status.ok()) return status.error();
  return std::unique_ptr<CommunicatorSeat>(std::move(seat));
}

}  // namespace spindrift
