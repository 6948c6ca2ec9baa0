#include "tools/coll/measure.h"

#include <chrono>
#include <limits>
#include <sstream>

#include <absl/strings/str_format.h>

namespace spindrift::coll {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

Measurement::Measurement(Communicator& communicator, Gather& gather, const Options& options,
                         std::uint64_t max_count)
    : communicator_(communicator),
      gather_(gather),
      options_(options),
      pattern_(communicator.ranks()),
      output_(max_count) {}

Status Measurement::barrier() {
  // One element passes through every rank twice.
  return communicator_.all_reduce({.input = &token_, .output = &token_, .count = 1});
}

Result<double> Measurement::time_us(std::uint64_t count, bool is_in_place, std::uint32_t rounds) {
  const CollectiveCall work{.input = is_in_place ? output_.data() : input_.data(),
                            .output = output_.data(),
                            .count = count,
                            .type = options_.type,
                            .op = options_.op};
  const Clock::time_point start = Clock::now();
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (Status status = communicator_.all_reduce(work); !status.ok()) return status.error();
  }
  return rounds == 0 ? 0.0 : microseconds_since(start) / rounds;
}

Result<std::uint64_t> Measurement::count_wrong(std::uint64_t count, bool is_in_place) {
  const std::span<float> output(output_.data(), count);
  if (is_in_place) {
    Pattern::fill(output, communicator_.rank(), 0);
  } else {
    std::fill(output.begin(), output.end(), std::numeric_limits<float>::quiet_NaN());
  }
  const Result<double> once = time_us(count, is_in_place, 1);
  if (!once.ok()) return once.error();
  return pattern_.count_wrong(output, 0);
}

Result<Outcome> Measurement::run_place(std::uint64_t count, bool is_in_place) {
  // Zeros stay zeros, however often they are added up in place.
  std::fill_n(output_.begin(), count, 0.0F);
  Outcome own;
  if (const Result<double> warm = time_us(count, is_in_place, options_.warmup); !warm.ok()) {
    return warm.error();
  }
  if (Status status = barrier(); !status.ok()) return status.error();
  const Result<double> time = time_us(count, is_in_place, options_.iterations);
  if (!time.ok()) return time.error();
  own.time_us = time.value();
  if (options_.has_check) {
    const Result<std::uint64_t> wrong = count_wrong(count, is_in_place);
    if (!wrong.ok()) return wrong.error();
    own.wrong = wrong.value();
  }
  const Result<std::vector<Outcome>> all = combine(std::span(&own, 1));
  if (!all.ok()) return all.error();
  return all.value().front();
}

Result<Row> Measurement::run(std::uint64_t count) {
  Row row;
  row.bytes = count * sizeof(float);
  row.count = count;
  if (input_.size() < count) {
    input_.resize(output_.size());
    Pattern::fill(input_, communicator_.rank(), 0);
  }
  const Result<Outcome> apart = run_place(count, false);
  if (!apart.ok()) return apart.error();
  const Result<Outcome> in_place = run_place(count, true);
  if (!in_place.ok()) return in_place.error();
  row.out_of_place = apart.value();
  row.in_place = in_place.value();
  return row;
}

Result<std::vector<Outcome>> Measurement::run_step(std::span<const std::uint64_t> counts) {
  std::vector<Outcome> own;
  std::uint64_t first = 0;
  for (const std::uint64_t count : counts) {
    Pattern::fill(std::span(output_.data() + first, count), communicator_.rank(), first);
    first += count;
  }
  if (Status status = barrier(); !status.ok()) return status.error();
  first = 0;
  for (const std::uint64_t count : counts) {
    float* const bucket = output_.data() + first;
    const Clock::time_point start = Clock::now();
    if (Status status = communicator_.all_reduce({.input = bucket,
                                                  .output = bucket,
                                                  .count = count,
                                                  .type = options_.type,
                                                  .op = options_.op});
        !status.ok()) {
      return status.error();
    }
    own.push_back({.time_us = microseconds_since(start), .wrong = std::nullopt});
    first += count;
  }
  first = 0;
  for (std::size_t i = 0; i < counts.size() && options_.has_check; ++i) {
    own[i].wrong = pattern_.count_wrong(std::span(output_.data() + first, counts[i]), first);
    first += counts[i];
  }
  return combine(own);
}

Result<std::vector<Outcome>> Measurement::combine(std::span<const Outcome> own) {
  std::string text;
  for (const Outcome& outcome : own) {
    absl::StrAppendFormat(&text, "%.9g %d ", outcome.time_us, outcome.wrong.value_or(0));
  }
  const Result<std::vector<std::string>> texts = gather_.to_rank_0(text);
  if (!texts.ok()) return texts.error();
  std::vector<Outcome> sum(own.begin(), own.end());
  for (std::size_t rank = 1; rank < texts.value().size(); ++rank) {
    std::istringstream words(texts.value()[rank]);
    for (Outcome& outcome : sum) {
      double time_us = 0;
      std::uint64_t wrong = 0;
      if (!(words >> time_us >> wrong)) {
        return Error(ErrorCode::kInvalidArgument,
                     absl::StrFormat("rank %d measures something else: start all ranks with the "
                                     "same options",
                                     rank));
      }
      outcome.time_us += time_us;
      if (outcome.wrong) *outcome.wrong += wrong;
    }
  }
  if (!texts.value().empty()) {
    for (Outcome& outcome : sum)
      outcome.time_us /= static_cast<double>(texts.value().size());
  }
  return sum;
}

}  // namespace spindrift::coll
