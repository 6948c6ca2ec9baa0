#include "collectives/rendezvous.h"

#include <algorithm>

#include <absl/strings/numbers.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "collectives/bootstrap/socket.h"
#include "transport/base/random.h"

namespace spindrift::collectives {
namespace {

// For a look at whether a rank is there, once the time is up.
constexpr Duration kGlance = std::chrono::milliseconds(50);

std::string address_key(const CommunicatorOptions& options, std::uint32_t rank) {
  return absl::StrFormat("%s/address/%d", options.name, rank);
}

Error missing_ranks(Store& store, const CommunicatorOptions& options, std::uint32_t first) {
  std::string missing = std::to_string(first);
  bool is_plural = false;
  for (std::uint32_t rank = first + 1; rank < options.ranks; ++rank) {
    if (store.get(address_key(options, rank), kGlance).ok()) continue;
    absl::StrAppendFormat(&missing, ", %d", rank);
    is_plural = true;
  }
  return {
      ErrorCode::kTimedOut,
      absl::StrFormat("rank %d waited %.1f s for rank%s %s of %d, which did not appear; start "
                      "it, or look at what it said before it ended",
                      options.rank, std::chrono::duration<double>(options.setup_timeout).count(),
                      is_plural ? "s" : "", missing, options.ranks)};
}

Result<std::uint64_t> agree_on_nonce(Store& store, const CommunicatorOptions& options) {
  const std::string key = options.name + "/nonce";
  if (options.rank == 0) {
    const std::uint64_t nonce = random_u64();
    if (Status status = store.set(key, std::to_string(nonce)); !status.ok()) return status.error();
    return nonce;
  }
  const Result<std::string> text = store.get(key, options.setup_timeout);
  if (!text.ok()) {
    if (text.error().code() == ErrorCode::kTimedOut) return missing_ranks(store, options, 0);
    return text.error();
  }
  std::uint64_t nonce = 0;
  if (!absl::SimpleAtoi(text.value(), &nonce)) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("\"%s\" in the store is no number; does another job use this "
                                 "rendezvous?",
                                 key));
  }
  return nonce;
}

}  // namespace

std::string to_text(const Seat& seat) {
  return absl::StrFormat("%s\n%s\n%d\n%s\n%s", seat.address, seat.same_host_address, seat.host,
                         seat.costs, seat.segments);
}

Result<Seat> seat_from_text(const std::string& text, std::uint32_t rank) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  Seat seat;
  if (lines.size() != 5 || !absl::SimpleAtoi(lines[2], &seat.host)) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("what rank %d left in the store is not of this version of the "
                                 "library; use one version everywhere",
                                 rank));
  }
  seat.address = lines[0];
  seat.same_host_address = lines[1];
  seat.costs = lines[3];
  seat.segments = lines[4];
  return seat;
}

bool is_of_one_host(std::string_view address) {
  return address.starts_with("shm://");
}

std::vector<std::uint32_t> Roster::hosts() const {
  std::vector<std::uint64_t> seen;
  std::vector<std::uint32_t> numbers;
  for (const Seat& seat : seats) {
    const auto found = std::find(seen.begin(), seen.end(), seat.host);
    numbers.push_back(static_cast<std::uint32_t>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(seat.host);
  }
  return numbers;
}

Result<Roster> meet(Store& store, const CommunicatorOptions& options, const Seat& own) {
  const Time deadline = monotonic_now() + options.setup_timeout;
  const Result<std::int64_t> claims =
      store.add(absl::StrFormat("%s/claims/%d", options.name, options.rank), 1);
  if (!claims.ok()) return claims.error();
  if (claims.value() != 1) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("rank %d is taken in group \"%s\": give every process its own "
                                 "rank, and every job its own rendezvous",
                                 options.rank, options.name));
  }
  if (Status status = store.set(address_key(options, options.rank), to_text(own)); !status.ok()) {
    return status.error();
  }
  const Result<std::uint64_t> nonce = agree_on_nonce(store, options);
  if (!nonce.ok()) return nonce.error();
  Roster roster{.nonce = nonce.value(), .seats = {}};
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const Duration left = std::max<Duration>(deadline - monotonic_now(), kGlance);
    Result<std::string> address = store.get(address_key(options, rank), left);
    if (!address.ok()) {
      if (address.error().code() == ErrorCode::kTimedOut) {
        return missing_ranks(store, options, rank);
      }
      return address.error();
    }
    Result<Seat> seat = seat_from_text(address.value(), rank);
    if (!seat.ok()) return seat.error();
    roster.seats.push_back(std::move(seat).value());
  }
  return roster;
}

}  // namespace spindrift::collectives
