#include "tools/coll/plan_view.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>

#include <absl/strings/str_format.h>

#include "collectives/plan_check.h"
#include "collectives/plan_clock.h"
#include "collectives/planner.h"
#include "tools/chart/palette.h"
#include "tools/chart/svg.h"
#include "tools/coll/operations.h"
#include "tools/coll/rank_run.h"
#include "tools/exit_codes.h"

namespace spindrift::coll {
namespace {

using collectives::CostModel;
using collectives::PlanClock;
using collectives::PlanKey;
using collectives::PlanMessage;
using collectives::Planner;

std::string place_text(const ChunkRef& ref, std::uint32_t chunks) {
  const char* const buffer = ref.buffer == BufferKind::kInput    ? "input"
                             : ref.buffer == BufferKind::kOutput ? "output"
                                                                 : "scratch";
  if (chunks == 1) return absl::StrFormat("%s[%d]", buffer, ref.chunk);
  return absl::StrFormat("%s[%d..%d]", buffer, ref.chunk, ref.chunk + chunks - 1);
}

std::string step_text(const Step& step) {
  const std::string source = place_text(step.source, step.chunks);
  const std::string target = place_text(step.target, step.chunks);
  const char* const final = step.is_final ? ", final" : "";
  switch (step.kind) {
    case StepKind::kSend:
      return "send " + source;
    case StepKind::kReceive:
      return "receive " + target;
    case StepKind::kReceiveReduce:
      return step.is_incoming_first
                 ? absl::StrFormat("%s = what comes + %s%s", target, source, final)
                 : absl::StrFormat("%s = %s + what comes%s", target, source, final);
    case StepKind::kCopy:
      return target + " = " + source;
    case StepKind::kReduce:
      return absl::StrFormat("%s = %s + %s%s", target, source,
                             place_text(step.operand, step.chunks), final);
  }
  return {};
}

std::string lane_text(const Lane& lane, std::uint32_t index) {
  std::string text = absl::StrFormat("  lane %d, ", index);
  if (!lane.peer) {
    text += "local";
  } else {
    const bool is_send = lane.steps.front().kind == StepKind::kSend;
    absl::StrAppendFormat(&text, "%s rank %d", is_send ? "to" : "from", *lane.peer);
  }
  if (lane.channel > 0) absl::StrAppendFormat(&text, ", channel %d", lane.channel);
  text += "\n";
  for (std::size_t i = 0; i < lane.steps.size(); ++i) {
    absl::StrAppendFormat(&text, "    %2d  %s", i, step_text(lane.steps[i]));
    for (std::size_t k = 0; k < lane.steps[i].waits.size(); ++k) {
      const StepWait& wait = lane.steps[i].waits[k];
      absl::StrAppendFormat(&text, "%s%d.%d%s", k == 0 ? "   after " : ", ", wait.on.lane,
                            wait.on.step, wait.is_by_slice ? "" : " (whole)");
    }
    text += "\n";
  }
  return text;
}

// Several messages between two ranks in one unit of time fan out a little.
constexpr double kColumn = 150;
constexpr double kRow = 46;
constexpr double kLeft = 90;
constexpr double kTop = 62;

double x_of(std::uint32_t time) {
  return kLeft + kColumn * time;
}
double y_of(std::uint32_t rank) {
  return kTop + kRow * rank;
}

void draw_message(chart::Svg& svg, const PlanMessage& message) {
  const double x1 = x_of(message.start.network + message.start.near) + 6;
  const double x2 = x1 + kColumn - 18;
  const double y1 = y_of(message.from);
  const double y2 = y_of(message.to);
  const bool is_added = message.receive->kind == StepKind::kReceiveReduce;
  const std::string_view colour = chart::kSeriesColours[is_added ? 1 : 0];
  svg.line(x1, y1, x2, y2, {.colour = colour, .width = 1.4});
  // The head: two short strokes back from the tip.
  const double length = std::max(std::hypot(x2 - x1, y2 - y1), 1.0);
  const double ux = (x2 - x1) / length;
  const double uy = (y2 - y1) / length;
  for (const double side : {-1.0, 1.0}) {
    svg.line(x2, y2, x2 - 8 * ux + side * 4 * uy, y2 - 8 * uy - side * 4 * ux,
             {.colour = colour, .width = 1.4});
  }
}

Result<std::vector<Plan>> plans_for(const Options& options, const CollectiveAlgorithm& algorithm) {
  std::vector<Plan> plans;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    Result<Plan> plan = build_plan(algorithm, {.collective = options.collective,
                                               .rank = rank,
                                               .ranks = options.ranks,
                                               .root = options.root,
                                               .is_in_place = false,
                                               .topology = options.topology});
    if (!plan.ok()) return plan.error();
    plans.push_back(std::move(plan).value());
  }
  return plans;
}

Result<Planner> planner_for(const Options& options) {
  Result<CostModel> costs = collectives::load_cost_model(collectives::cost_model_file());
  if (!costs.ok()) return costs.error();
  CostModel model = std::move(costs).value();
  if (options.provider == "shm") model.network = model.near;
  const bool is_network = options.provider == "udp" || !options.faults.empty();
  if (is_network) model.near = model.network;
  PlanTopology topology = options.topology;
  // Without --hosts, what --ranks starts here: all on this host.
  if (topology.hosts.empty()) topology.hosts.assign(options.ranks, 0);
  return Planner::create({.rank = 0,
                          .ranks = options.ranks,
                          .slice_bytes = options.slice_bytes,
                          .is_deterministic = options.is_deterministic,
                          .algorithm = options.algorithm,
                          .topology = std::move(topology),
                          .costs = std::move(model),
                          .has_segments = std::vector<bool>(options.ranks, !is_network)});
}

PlanKey key_for(const Options& options, std::uint64_t bytes) {
  const std::uint64_t count =
      count_for(operation_of(options.collective), bytes, options.type, options.ranks);
  return {.collective = options.collective,
          .element_bytes = static_cast<std::uint8_t>(bytes_of(options.type)),
          .root = options.root,
          .count = count};
}

void print_choice(const AlgorithmChoice& choice, std::uint64_t bytes) {
  std::cout << absl::StrFormat("%d bytes: %s, because %s\n", bytes, choice.algorithm,
                               choice.reason);
  for (const AlgorithmChoice::Candidate& candidate : choice.candidates) {
    if (!candidate.excluded.empty()) {
      std::cout << absl::StrFormat("  %-18s %s\n", candidate.name, candidate.excluded);
      continue;
    }
    std::cout << absl::StrFormat(
        "  %-18s %3.0f steps %14.0f bytes a rank %12.1f us%s\n", candidate.name, candidate.steps,
        candidate.bytes, candidate.predicted_us, candidate.name == choice.algorithm ? "  <-" : "");
  }
}

}  // namespace

std::string plan_text(std::span<const Plan> plans, const PlanTopology& topology) {
  std::string text;
  for (const Plan& plan : plans) {
    absl::StrAppendFormat(&text, "rank %d", plan.rank);
    if (!topology.hosts.empty()) {
      absl::StrAppendFormat(&text, " (host %d)", topology.hosts[plan.rank]);
    }
    text += "\n";
    for (std::uint32_t lane = 0; lane < plan.lanes.size(); ++lane)
      text += lane_text(plan.lanes[lane], lane);
  }
  return text;
}

std::string plan_svg(std::span<const Plan> plans, const PlanTopology& topology,
                     const std::string& title) {
  PlanClock clock(plans, topology);
  const collectives::Moment last = clock.run();
  const std::uint32_t steps = last.network + last.near;
  const auto ranks = static_cast<std::uint32_t>(plans.size());
  const double right = x_of(std::max(steps, 1U));
  chart::Svg svg(right + 40, y_of(ranks) + 12, title);
  svg.text(16, 24, title, {.font_pixels = 15, .is_bold = true});
  svg.text(right, 24, "orange: added at the receiver; blue: stored there",
           {.font_pixels = 11, .anchor = chart::Anchor::kEnd});
  for (std::uint32_t step = 0; step < steps; ++step) {
    svg.text(x_of(step) + kColumn / 2, kTop - 20, absl::StrFormat("step %d", step + 1),
             {.font_pixels = 11, .anchor = chart::Anchor::kMiddle});
  }
  for (const Plan& plan : plans) {
    svg.text(16, y_of(plan.rank) + 4, absl::StrFormat("rank %d", plan.rank), {});
    svg.line(kLeft, y_of(plan.rank), right, y_of(plan.rank), {.colour = chart::kGrid});
  }
  for (const PlanMessage& message : clock.messages())
    draw_message(svg, message);
  return svg.finish();
}

int show_plan(const Options& options) {
  const Result<Planner> planner = planner_for(options);
  if (!planner.ok()) return complain(planner.error().message(), 2);
  const auto algorithm = planner.value().choose(key_for(options, options.max_bytes));
  if (!algorithm.ok()) return complain(algorithm.error().message(), 2);
  const Result<std::vector<Plan>> plans = plans_for(options, *algorithm.value());
  if (!plans.ok()) return complain(plans.error().message(), 2);
  const std::string title =
      absl::StrFormat("%s:%s, %d ranks", std::string(to_string(options.collective)),
                      std::string(algorithm.value()->name), options.ranks);
  if (options.plan_file.empty()) {
    std::cout << title << ": " << algorithm.value()->summary << "\n"
              << plan_text(plans.value(), options.topology);
    return tools::finish_output("coll", tools::kExitOk);
  }
  std::ofstream out(options.plan_file);
  out << plan_svg(plans.value(), options.topology, title);
  out.close();
  if (!out) return complain("cannot write " + options.plan_file, tools::kExitFailure);
  std::cout << title << ": " << options.plan_file << "\n";
  return tools::finish_output("coll", tools::kExitOk);
}

int explain_choices(const Options& options) {
  const Result<Planner> planner = planner_for(options);
  if (!planner.ok()) return complain(planner.error().message(), 2);
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    const Result<AlgorithmChoice> choice = planner.value().explain(key_for(options, bytes));
    if (!choice.ok()) return complain(choice.error().message(), 2);
    print_choice(choice.value(), bytes);
    bytes = options.step_factor > 1 ? bytes * options.step_factor : bytes + options.step_bytes;
  }
  return tools::finish_output("coll", tools::kExitOk);
}

}  // namespace spindrift::coll
