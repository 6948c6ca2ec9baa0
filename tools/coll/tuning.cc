#include "tools/coll/tuning.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <absl/strings/str_format.h>

#include "collectives/cost_model.h"
#include "collectives/plan.h"

namespace spindrift::coll {
namespace {

using Clock = std::chrono::steady_clock;
using collectives::BlockCounts;
using collectives::CostModel;
using collectives::LinkCosts;

constexpr std::uint64_t kSmallCount = 2;  // floats
// A block of this many bytes is long enough for the bandwidth to tell, and short enough that all
// algorithms are measured in seconds.
constexpr std::uint64_t kLargeBytes = 1U << 20U;
constexpr std::uint32_t kSmallRounds = 200;
constexpr std::uint32_t kLargeRounds = 8;
constexpr std::uint32_t kRepetitions = 5;
// A factor outside of this is noise.
constexpr std::uint64_t kSharedBytes = 32768;
constexpr double kLeastFactor = 0.02;
constexpr double kMostFactor = 20;

class Tuner final {
 public:
  explicit Tuner(Communicator& communicator)
      : communicator_(communicator), ranks_(communicator.ranks()) {
    const std::size_t floats = kLargeBytes / sizeof(float) * ranks_;
    input_.resize(floats);
    output_.resize(floats);
  }

  Result<CostModel> run() {
    CostModel model;
    LinkCosts& costs = model.network;
    const Result<double> half_trip = one_way_us();
    if (!half_trip.ok()) return half_trip.error();
    costs.latency_us = half_trip.value();
    const Result<double> gather =
        call_us(Collective::kAllGather, "direct", kSmallCount, kSmallRounds);
    if (!gather.ok()) return gather.error();
    costs.overhead_us = std::max(0.0, (gather.value() - costs.latency_us) / (ranks_ - 1));
    const std::uint64_t count = kLargeBytes / sizeof(float);
    const Result<double> ring = call_us(Collective::kAllGather, "ring", count, kLargeRounds);
    if (!ring.ok()) return ring.error();
    const double bytes = static_cast<double>(kLargeBytes) * (ranks_ - 1);
    costs.bandwidth_gbps =
        bytes / std::max(ring.value() - (ranks_ - 1) * costs.latency_us, 1.0) / 1e3;
    // Every algorithm against the model without factors.
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (algorithm->why_not != nullptr || algorithm->collective == Collective::kBarrier) continue;
      if (algorithm->collective == Collective::kAllToAllV || algorithm->is_shared) continue;
      if (Status status = fit(*algorithm, count, model); !status.ok()) return status.error();
    }
    model.near = model.network;
    if (Status status = fit_shared(model.shared); !status.ok()) return status.error();
    return model;
  }
  // Whether the ranks share memory (run() has measured it then).
  bool is_sharing() const {
    CollectiveCall call{.collective = Collective::kAllGather, .count = kSmallCount};
    call.algorithm = kShared;
    return communicator_.explain(call).ok();
  }

 private:
  static constexpr std::string_view kShared = "shared";

  // Two lengths give two constants; the share of each further rank in the first is not told apart.
  Status fit_shared(LinkCosts& costs) {
    if (!is_sharing()) return ok_status();
    const auto collective = Collective::kAllGather;
    const Result<double> small = call_us(collective, kShared, kSmallCount, kSmallRounds);
    if (!small.ok()) return small.error();
    const std::uint64_t count = kSharedBytes / sizeof(float);
    const Result<double> large = call_us(collective, kShared, count, kLargeRounds);
    if (!large.ok()) return large.error();
    costs.overhead_us = small.value() / (ranks_ + 3);
    costs.latency_us = small.value() - costs.overhead_us * (ranks_ - 1);
    const double bytes = static_cast<double>(kSharedBytes) * (ranks_ - 1);
    costs.bandwidth_gbps = bytes / std::max(large.value() - small.value(), 0.1) / 1e3;
    return ok_status();
  }

  Status fit(const CollectiveAlgorithm& algorithm, std::uint64_t count, CostModel& model) {
    const Result<PlanCost> cost =
        cost_of(algorithm, {.collective = algorithm.collective, .ranks = ranks_});
    if (!cost.ok()) return cost.error();
    const Result<double> time = call_us(algorithm.collective, algorithm.name, count, kLargeRounds);
    if (!time.ok()) return time.error();
    const PlanCost::Traffic& traffic = cost.value().network;
    const double bytes = traffic.blocks * static_cast<double>(kLargeBytes);
    const double at_once = bytes / (model.network.bandwidth_gbps * 1e3);
    const double fixed = model.network.predict_us(traffic, kLargeBytes, 1.0) - at_once;
    const double factor = at_once / std::max(time.value() - fixed, at_once / kMostFactor);
    model
        .factors[std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name)] =
        std::clamp(factor, kLeastFactor, kMostFactor);
    return ok_status();
  }

  // The fastest of several repetitions, as the slowest rank sees it; the same at all ranks.
  Result<double> agreed(double own) {
    double all = 0;
    const Status status = communicator_.all_reduce({.input = &own,
                                                    .output = &all,
                                                    .count = 1,
                                                    .type = DataType::kFloat64,
                                                    .op = ReduceOp::kMax});
    if (!status.ok()) return status.error();
    return all;
  }

  Result<double> call_us(Collective collective, std::string_view algorithm, std::uint64_t count,
                         std::uint32_t rounds) {
    CollectiveCall call{
        .collective = collective, .input = input_.data(), .output = output_.data(), .count = count};
    call.algorithm = algorithm;
    double best = 1e12;
    for (std::uint32_t i = 0; i < kRepetitions; ++i) {
      if (Status status = communicator_.barrier(); !status.ok()) return status.error();
      const Clock::time_point start = Clock::now();
      for (std::uint32_t round = 0; round < rounds; ++round) {
        if (Status status = communicator_.run(call); !status.ok()) return status.error();
      }
      const double own =
          std::chrono::duration<double, std::micro>(Clock::now() - start).count() / rounds;
      const Result<double> slowest = agreed(own);
      if (!slowest.ok()) return slowest.error();
      best = std::min(best, slowest.value());
    }
    return best;
  }

  // Half of a round trip between ranks 0 and 1, while the others wait.
  Result<double> one_way_us() {
    const std::uint32_t rank = communicator_.rank();
    double own = 0;
    if (rank < 2) {
      std::byte byte{};
      for (std::uint32_t i = 0; i < kRepetitions; ++i) {
        const Clock::time_point start = Clock::now();
        for (std::uint32_t round = 0; round < kSmallRounds; ++round) {
          for (const bool is_first : {true, false}) {
            const Transfer transfer{
                .peer = 1 - rank, .is_send = (rank == 0) == is_first, .data = &byte, .count = 1};
            const Status status =
                communicator_.send_receive(DataType::kUint8, std::span(&transfer, 1));
            if (!status.ok()) return status.error();
          }
        }
        const double time =
            std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
            (2 * kSmallRounds);
        own = i == 0 ? time : std::min(own, time);
      }
    } else {
      // Calls match by order: the others make as many that move nothing.
      for (std::uint32_t i = 0; i < 2 * kSmallRounds * kRepetitions; ++i) {
        const Status status = communicator_.send_receive(DataType::kUint8, {});
        if (!status.ok()) return status.error();
      }
    }
    return agreed(own);
  }

  Communicator& communicator_;
  const std::uint32_t ranks_;
  std::vector<float> input_;
  std::vector<float> output_;
};

}  // namespace

Status tune(const Options& options, Communicator& communicator) {
  if (communicator.ranks() < 2) {
    return Error(ErrorCode::kInvalidArgument, "there is nothing to measure with one rank");
  }
  const std::vector<RankLink> links = communicator.links();
  const bool is_near = std::all_of(links.begin(), links.end(), [](const RankLink& link) {
    return link.address.starts_with("shm://");
  });
  Tuner tuner(communicator);
  Result<CostModel> found = tuner.run();
  if (!found.ok()) return found.error();
  if (*options.rank != 0) return ok_status();
  const std::string file = collectives::cost_model_file();
  if (file.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "nowhere to store the costs: set SPINDRIFT_TUNING to a file, or HOME");
  }
  // What was measured before over the other kind of connection stays.
  Result<CostModel> stored = collectives::load_cost_model(file);
  CostModel model = stored.ok() ? std::move(stored).value() : CostModel{};
  const LinkCosts& measured = found.value().network;
  (is_near ? model.near : model.network) = measured;
  model.factors = found.value().factors;
  const LinkCosts& shared = found.value().shared;
  if (tuner.is_sharing()) {
    model.shared = shared;
    std::cout << absl::StrFormat(
        "shared memory: latency %.2f us, %.2f us for each further rank, %.2f GB/s\n",
        shared.latency_us, shared.overhead_us, shared.bandwidth_gbps);
  }
  if (Status status = collectives::save_cost_model(file, model); !status.ok()) return status;
  std::cout << absl::StrFormat("%s: latency %.2f us, %.2f us for each further message, %.2f GB/s\n",
                               is_near ? "same host" : "network", measured.latency_us,
                               measured.overhead_us, measured.bandwidth_gbps);
  for (const auto& [name, factor] : model.factors)
    std::cout << absl::StrFormat("  %-32s %.2f of the bandwidth\n", name, factor);
  std::cout << "written to " << file << "\n";
  return ok_status();
}

}  // namespace spindrift::coll
