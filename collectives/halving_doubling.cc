// Recursive doubling, and recursive halving and doubling (Rabenseifner 2004), for any number of
// ranks: where it is no power of two, the first ranks pair up, and one of each pair sits out.
#include <bit>

#include "collectives/algorithms.h"
#include "collectives/plan_builder.h"

namespace spindrift::collectives {
namespace {

// The power of two that takes part, and who sits out.
class Fold final {
 public:
  explicit Fold(const PlanRequest& request)
      : members(std::bit_floor(request.ranks)), extra_(request.ranks - members) {}

  // Of the first 2 x extra ranks the odd ones sit out.
  bool sits_out(std::uint32_t rank) const { return rank < 2 * extra_ && rank % 2 == 1; }
  bool has_partner(std::uint32_t rank) const { return rank < 2 * extra_; }
  std::uint32_t member_of(std::uint32_t rank) const {
    return rank < 2 * extra_ ? rank / 2 : rank - extra_;
  }
  std::uint32_t rank_of(std::uint32_t member) const {
    return member < extra_ ? 2 * member : member + extra_;
  }

  const std::uint32_t members;

 private:
  const std::uint32_t extra_;
};

// All `chunks` chunks go to the partner and come back as sums.
Plan sit_out(const PlanRequest& request, std::uint32_t chunks) {
  PlanBuilder plan(request, chunks);
  plan.send(request.rank - 1, input(0), chunks);
  plan.receive(request.rank - 1, output(0), chunks);
  return plan.finish();
}

Plan doubling_all_reduce(const PlanRequest& request) {
  const Fold fold(request);
  if (fold.sits_out(request.rank)) return sit_out(request, 1);
  PlanBuilder plan(request, 1);
  ChunkRef sum = input(0);
  if (fold.has_partner(request.rank)) {
    plan.receive_reduce(request.rank + 1, input(0), output(0), {});
    sum = output(0);
  }
  const std::uint32_t own = fold.member_of(request.rank);
  for (std::uint32_t mask = 1; mask < fold.members; mask *= 2) {
    const std::uint32_t peer = fold.rank_of(own ^ mask);
    plan.send(peer, sum);
    plan.receive_reduce(
        peer, sum, output(0),
        {.is_incoming_first = (own & mask) != 0, .is_final = mask * 2 == fold.members});
    sum = output(0);
  }
  if (fold.has_partner(request.rank)) plan.send(request.rank + 1, output(0));
  return plan.finish();
}

Plan halving_doubling_all_reduce(const PlanRequest& request) {
  const Fold fold(request);
  const std::uint32_t chunks = fold.members;
  if (fold.sits_out(request.rank)) return sit_out(request, chunks);
  PlanBuilder plan(request, chunks);
  bool has_sum = fold.has_partner(request.rank);
  if (has_sum) plan.receive_reduce(request.rank + 1, input(0), output(0), {}, chunks);
  const std::uint32_t own = fold.member_of(request.rank);
  // The range of chunks this rank still adds up.
  std::uint32_t first = 0;
  for (std::uint32_t half = chunks / 2; half > 0; half /= 2) {
    const std::uint32_t peer = fold.rank_of(own ^ half);
    const bool is_upper = (own & half) != 0;
    const std::uint32_t keep = is_upper ? first + half : first;
    const std::uint32_t give = is_upper ? first : first + half;
    plan.send(peer, has_sum ? output(give) : input(give), half);
    plan.receive_reduce(peer, has_sum ? output(keep) : input(keep), output(keep),
                        {.is_incoming_first = is_upper, .is_final = half == 1}, half);
    has_sum = true;
    first = keep;
  }
  for (std::uint32_t have = 1; have < chunks; have *= 2) {
    const std::uint32_t peer = fold.rank_of(own ^ have);
    plan.send(peer, output(first), have);
    plan.receive(peer, output(first ^ have), have);
    first &= ~have;
  }
  if (fold.has_partner(request.rank)) plan.send(request.rank + 1, output(0), chunks);
  return plan.finish();
}

}  // namespace

const CollectiveAlgorithm kDoublingAllReduce{
    .name = "doubling",
    .summary = "whole vectors between ever more distant pairs: log2(n) steps, for small sizes",
    .collective = Collective::kAllReduce,
    .build = doubling_all_reduce};
const CollectiveAlgorithm kHalvingDoublingAllReduce{
    .name = "halving_doubling",
    .summary = "ever smaller halves, then ever larger ones: 2 log2(n) steps, 2(n-1)/n of the bytes",
    .collective = Collective::kAllReduce,
    .build = halving_doubling_all_reduce};

}  // namespace spindrift::collectives
