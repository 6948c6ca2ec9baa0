#include "tools/coll/measure.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include <absl/strings/str_format.h>

namespace spindrift::coll {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Measurement::Measurement(Communicator& communicator, Gather& gather, const Options& options)
    : communicator_(communicator),
      gather_(gather),
      options_(options),
      buffers_(options, communicator.rank(), communicator.ranks(), options.max_bytes) {}

Status Measurement::time(std::uint64_t count, Place place, std::uint32_t rounds, RankTime& own) {
  const CollectiveCall call = buffers_.call(count, place);
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (Status status = communicator_.run(call); !status.ok()) return status;
    const Clock::time_point after = Clock::now();
    own.slowest_us = std::max(own.slowest_us, microseconds(after - before));
    before = after;
  }
  own.mean_us = rounds == 0 ? 0.0 : microseconds(before - start) / rounds;
  return ok_status();
}

Result<std::uint64_t> Measurement::count_wrong(std::uint64_t count, Place place) {
  buffers_.fill(count, place);
  if (Status status = communicator_.run(buffers_.call(count, place)); !status.ok()) {
    return status.error();
  }
  return buffers_.count_wrong(count, place);
}

Result<Outcome> Measurement::run_place(std::uint64_t count, Place place) {
  buffers_.clear(count, place);
  RankTime warm;
  if (Status status = time(count, place, options_.warmup, warm); !status.ok()) {
    return status.error();
  }
  if (Status status = communicator_.barrier(); !status.ok()) return status.error();
  RankTime own;
  if (Status status = time(count, place, options_.iterations, own); !status.ok()) {
    return status.error();
  }
  std::uint64_t wrong = 0;
  if (options_.has_check) {
    const Result<std::uint64_t> counted = count_wrong(count, place);
    if (!counted.ok()) return counted.error();
    wrong = counted.value();
  }
  Result<std::vector<Outcome>> all =
      combine(gather_, std::span(&own, 1), std::span(&wrong, 1), options_.has_check);
  if (!all.ok()) return all.error();
  return std::move(all.value().front());
}

Result<Row> Measurement::run(std::uint64_t count) {
  const Operation& operation = operation_of(options_.collective);
  Row row;
  row.bytes = bytes_for(operation, count, options_.type, communicator_.ranks());
  row.count = count;
  // Of a send and a receive there is nothing to choose.
  if (options_.collective != Collective::kSendReceive) {
    Result<AlgorithmChoice> choice = communicator_.explain(buffers_.call(count, Place::kApart));
    if (!choice.ok()) return choice.error();
    row.algorithm = choice.value().algorithm;
  }
  Result<Outcome> apart = run_place(count, Place::kApart);
  if (!apart.ok()) return apart.error();
  row.out_of_place = std::move(apart).value();
  if (!operation.can_be_in_place) return row;
  Result<Outcome> in_place = run_place(count, Place::kInPlace);
  if (!in_place.ok()) return in_place.error();
  row.in_place = std::move(in_place).value();
  return row;
}

Result<std::vector<Outcome>> combine(Gather& gather, std::span<const RankTime> own,
                                     std::span<const std::uint64_t> wrong, bool is_checked) {
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i) {
    absl::StrAppendFormat(&text, "%.9g %.9g %d ", own[i].mean_us, own[i].slowest_us, wrong[i]);
  }
  const Result<std::vector<std::string>> texts = gather.to_rank_0(text);
  if (!texts.ok()) return texts.error();
  std::vector<Outcome> outcomes(own.size());
  for (std::size_t rank = 0; rank < texts.value().size(); ++rank) {
    std::istringstream words(texts.value()[rank]);
    for (Outcome& outcome : outcomes) {
      RankTime time;
      std::uint64_t more_wrong = 0;
      if (!(words >> time.mean_us >> time.slowest_us >> more_wrong)) {
        return Error(ErrorCode::kInvalidArgument,
                     absl::StrFormat("rank %d measures something else: start all ranks with the "
                                     "same options",
                                     rank));
      }
      outcome.ranks.push_back(time);
      outcome.time_us += time.mean_us / static_cast<double>(texts.value().size());
      if (is_checked) outcome.wrong = outcome.wrong.value_or(0) + more_wrong;
    }
  }
  return outcomes;
}

}  // namespace spindrift::coll
