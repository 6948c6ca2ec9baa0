#pragma once
// Plans and choices for people: as text, and as a picture of who sends what when.
#include <span>
#include <string>

#include "spindrift/plan.h"

#include "tools/coll/options.h"

namespace spindrift::coll {

// Every lane of every rank, a line for each step.
std::string plan_text(std::span<const Plan> plans, const PlanTopology& topology);
// SVG: ranks from top to bottom, time in messages from left to right, an arrow for each message.
std::string plan_svg(std::span<const Plan> plans, const PlanTopology& topology,
                     const std::string& title);

// --show-plan and --explain: prints and returns the exit code. Starts no ranks.
int show_plan(const Options& options);
int explain_choices(const Options& options);

}  // namespace spindrift::coll
