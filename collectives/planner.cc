#include "collectives/planner.h"

#include <algorithm>

#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include "collectives/plan.h"

namespace spindrift::collectives {
namespace {

constexpr std::size_t kMaxEntries = 256;

std::string name_of(const CollectiveAlgorithm& algorithm) {
  return std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name);
}

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

}  // namespace

Result<Planner> Planner::create(PlannerOptions options) {
  Planner planner(std::move(options));
  const std::string text = planner.options_.algorithm;
  if (Status status = planner.parse(text); !status.ok()) return status.error();
  return planner;
}

Status Planner::parse(std::string_view text) {
  for (const absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()),
                                                     absl::ByAnyChar(";,"), absl::SkipEmpty())) {
    const std::string item(part);
    const std::size_t colon = item.find(':');
    const std::string name = colon == std::string::npos ? item : item.substr(colon + 1);
    bool has_found = false;
    if (colon != std::string::npos) {
      const Result<Collective> collective = collective_from_text(item.substr(0, colon));
      if (!collective.ok()) return collective.error();
      const auto found = find_collective_algorithm(collective.value(), name);
      if (!found.ok()) return found.error();
      forced_.push_back(found.value());
      continue;
    }
    // Without a collective: wherever there is one of that name.
    std::string names;
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
      if (algorithm->name == name) {
        forced_.push_back(algorithm);
        has_found = true;
      }
      const std::string quoted = std::string(algorithm->name);
      if (names.find(quoted) == std::string::npos) names += (names.empty() ? "" : ", ") + quoted;
    }
    if (!has_found) {
      return invalid(
          absl::StrFormat("no algorithm \"%s\"; there are: %s (as in \"ring\" or "
                          "\"all_reduce:ring;broadcast:tree\")",
                          name, names));
    }
  }
  return ok_status();
}

const CollectiveAlgorithm* Planner::forced(Collective collective) const {
  const auto found =
      std::find_if(forced_.rbegin(), forced_.rend(),
                   [&](const CollectiveAlgorithm* one) { return one->collective == collective; });
  return found == forced_.rend() ? nullptr : *found;
}

PlanRequest Planner::request_for(const PlanKey& key) const {
  return {.collective = key.collective,
          .rank = options_.rank,
          .ranks = options_.ranks,
          .root = key.root,
          .is_in_place = key.is_in_place,
          .topology = options_.topology};
}

std::string Planner::why_not(const CollectiveAlgorithm& algorithm, const PlanKey& key) const {
  if (options_.is_deterministic && !algorithm.is_rank_ordered) {
    return "does not add in the order of the ranks, which deterministic results need";
  }
  if (options_.ranks == 1) return {};
  if (algorithm.is_shared) {
    if (std::string reason = why_not_shared(); !reason.empty()) return reason;
  }
  if (algorithm.why_not == nullptr) return {};
  return algorithm.why_not(request_for(key));
}

std::string Planner::why_not_shared() const {
  const std::vector<std::uint32_t>& hosts = options_.topology.hosts;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] != 0) return absl::StrFormat("ranks 0 and %d are on different hosts", rank);
  if (hosts.empty()) return "nobody knows which ranks share a host";
  return why_no_memory();
}

// Of the ranks that are not alone on their hosts.
std::string Planner::why_no_memory() const {
  const std::vector<std::uint32_t>& hosts = options_.topology.hosts;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    const bool has_segment = rank < options_.has_segments.size() && options_.has_segments[rank];
    if (!has_segment && std::count(hosts.begin(), hosts.end(), hosts[rank]) > 1)
      return absl::StrFormat("rank %d shares no memory with the others of its host", rank);
  }
  return options_.why_not_shared;
}

bool Planner::uses_memory(const CollectiveAlgorithm& algorithm, const PlanKey& key) const {
  if (options_.ranks == 1) return false;
  if (algorithm.is_shared) return true;
  return algorithm.is_hierarchical && larger_bytes(key) <= options_.costs.shared_limit_bytes &&
         why_no_memory().empty();
}

std::uint64_t Planner::larger_bytes(const PlanKey& key) const {
  const BlockCounts blocks = blocks_of(key.collective, options_.ranks);
  return key.count * key.element_bytes * std::max(blocks.input, blocks.output);
}

std::vector<std::uint32_t> Planner::near_ranks() const {
  const std::vector<std::uint32_t>& hosts = options_.topology.hosts;
  std::vector<std::uint32_t> near;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] == hosts[options_.rank]) near.push_back(rank);
  return near;
}

Result<PlanCost> Planner::cost(const CollectiveAlgorithm& algorithm, const PlanKey& key) const {
  for (const KnownCost& known : known_) {
    if (known.algorithm == &algorithm && known.root == key.root) return known.cost;
  }
  PlanRequest request = request_for(key);
  request.is_in_place = false;  // the same at every rank
  Result<PlanCost> cost = cost_of(algorithm, request);
  if (cost.ok()) {
    known_.push_back({.algorithm = &algorithm, .root = key.root, .cost = cost.value()});
  }
  return cost;
}

Result<AlgorithmChoice> Planner::explain(const PlanKey& key) const {
  AlgorithmChoice choice;
  const double bytes = static_cast<double>(key.count) * key.element_bytes;
  const std::uint64_t larger = larger_bytes(key);
  const CollectiveAlgorithm* const wanted =
      key.algorithm != nullptr ? key.algorithm : forced(key.collective);
  const AlgorithmChoice::Candidate* best = nullptr;
  choice.candidates.reserve(collective_algorithms().size());
  for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
    if (algorithm->collective != key.collective) continue;
    AlgorithmChoice::Candidate& candidate = choice.candidates.emplace_back();
    candidate.name = std::string(algorithm->name);
    candidate.excluded = why_not(*algorithm, key);
    if (algorithm == wanted && !candidate.excluded.empty()) {
      return Error(
          ErrorCode::kUnsupported,
          absl::StrFormat("%s was asked for, but %s", name_of(*algorithm), candidate.excluded));
    }
    const bool is_too_long = algorithm->is_shared && algorithm != wanted && options_.ranks > 1 &&
                             larger > options_.costs.shared_limit_bytes;
    if (candidate.excluded.empty() && is_too_long) {
      candidate.excluded = absl::StrFormat("more than the %d bytes that go through shared memory",
                                           options_.costs.shared_limit_bytes);
    }
    if (!candidate.excluded.empty()) continue;
    const Result<PlanCost> counted = cost(*algorithm, key);
    if (!counted.ok()) return counted.error();
    const PlanCost& counts = counted.value();
    candidate.steps = counts.network.steps + counts.near.steps;
    candidate.bytes = (counts.network.blocks + counts.near.blocks) * bytes;
    candidate.predicted_us =
        options_.costs.predict_us(*algorithm, counts, bytes, uses_memory(*algorithm, key));
    if (best == nullptr || candidate.predicted_us < best->predicted_us) best = &candidate;
    if (algorithm == wanted) choice.algorithm = candidate.name;
  }
  if (wanted != nullptr) {
    choice.reason = key.algorithm != nullptr ? "the call asks for it"
                                             : "it was asked for (--algo, SPINDRIFT_ALGO)";
    return choice;
  }
  if (best == nullptr) {
    return Error(ErrorCode::kUnsupported, absl::StrFormat("no algorithm of %s does for this group",
                                                          std::string(to_string(key.collective))));
  }
  choice.algorithm = best->name;
  choice.reason = absl::StrFormat("the cost model expects %.1f us, the least of %d",
                                  best->predicted_us, choice.candidates.size());
  return choice;
}

AlgorithmChoice Planner::explain_transfers(std::uint32_t messages, double bytes) const {
  const PlanCost::Traffic traffic{.steps = 1, .messages = messages, .blocks = 1};
  AlgorithmChoice::Candidate direct{.name = "direct", .steps = 1, .bytes = bytes, .excluded = {}};
  direct.predicted_us = options_.costs.network.predict_us(traffic, bytes, 1);
  return {.algorithm = direct.name,
          .reason = "each message goes straight to its receiver",
          .candidates = {direct}};
}

Result<const CollectiveAlgorithm*> Planner::choose(const PlanKey& key) const {
  const Result<AlgorithmChoice> choice = explain(key);
  if (!choice.ok()) return choice.error();
  return find_collective_algorithm(key.collective, choice.value().algorithm);
}

Result<Planner> Planner::for_part(std::uint32_t rank,
                                  std::span<const std::uint32_t> members) const {
  PlannerOptions options = options_;
  options.rank = rank;
  options.ranks = static_cast<std::uint32_t>(members.size());
  if (!options_.has_segments.empty()) {
    options.has_segments.clear();
    for (const std::uint32_t member : members)
      options.has_segments.push_back(options_.has_segments[member]);
  }
  if (!options_.topology.hosts.empty()) {
    // Hosts are counted anew, in order of appearance.
    std::vector<std::uint32_t> seen;
    options.topology.hosts.clear();
    for (const std::uint32_t member : members) {
      const std::uint32_t host = options_.topology.hosts[member];
      const auto found = std::find(seen.begin(), seen.end(), host);
      options.topology.hosts.push_back(static_cast<std::uint32_t>(found - seen.begin()));
      if (found == seen.end()) seen.push_back(host);
    }
  }
  return create(std::move(options));
}

Result<Planner::Entry*> Planner::find(const PlanKey& key) {
  ++uses_;
  if (last_ == nullptr || last_->key != key) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const std::unique_ptr<Entry>& entry) { return entry->key == key; });
    last_ = found == entries_.end() ? nullptr : found->get();
  }
  if (last_ != nullptr) {
    last_->last_use = uses_;
    return last_;
  }
  const Result<const CollectiveAlgorithm*> algorithm = choose(key);
  if (!algorithm.ok()) return algorithm.error();
  const PlanRequest request = request_for(key);
  Result<Plan> plan = build_plan(*algorithm.value(), request);
  if (!plan.ok()) return plan.error();
  std::optional<BoundShared> shared;
  if (uses_memory(*algorithm.value(), key)) {
    if (const auto tables = shared_tables(*algorithm.value(), request, plan.value()))
      shared.emplace(*tables, key.count, key.element_bytes);
    plan = without_shared(*algorithm.value(), plan.value(), request.topology);
  }
  if (entries_.size() >= kMaxEntries) give_up_oldest();
  entries_.push_back(std::make_unique<Entry>(
      Entry{.key = key,
            .algorithm = algorithm.value(),
            .plan = BoundPlan(plan.value(), {.count = key.count,
                                             .element_bytes = key.element_bytes,
                                             .slice_bytes = options_.slice_bytes}),
            .shared = std::move(shared),
            .last_use = uses_,
            .name_hash = hash_of(algorithm.value()->name)}));
  last_ = entries_.back().get();
  return last_;
}

void Planner::give_up_oldest() {
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if ((*entry)->users == 0 &&
        (oldest == entries_.end() || (*entry)->last_use < (*oldest)->last_use)) {
      oldest = entry;
    }
  }
  if (oldest != entries_.end()) entries_.erase(oldest);
}

Result<BoundPlan> Planner::bind(Collective collective, const CollectiveAlgorithm* algorithm,
                                const BindRequest& request) const {
  // What one rank sends is not what another does: a choice by size would differ between them.
  const CollectiveAlgorithm* chosen = algorithm != nullptr ? algorithm : forced(collective);
  if (chosen == nullptr) chosen = find_collective_algorithm(collective, "direct").value();
  const Result<Plan> plan = build_plan(*chosen, request_for({.collective = collective}));
  if (!plan.ok()) return plan.error();
  BindRequest bound = request;
  bound.slice_bytes = options_.slice_bytes;
  return BoundPlan(plan.value(), bound);
}

}  // namespace spindrift::collectives
