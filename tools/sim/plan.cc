#include "tools/sim/plan.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/sim/keys.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

Error wrong(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

// The next combination, the last axis fastest; false after the last one.
bool advance(std::vector<std::size_t>& at, const std::vector<Axis>& axes) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (++at[i] < axes[i].values.size()) return true;
    at[i] = 0;
  }
  return false;
}

// The last part of a key's name says enough beside its values.
std::string_view short_name(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

Result<Axis> parse_axis(std::string_view text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string_view::npos || sign == 0 || sign + 1 == text.size())
    return wrong(cat("--sweep ", text, ": write it as key=a,b,c"));
  const std::string_view values = text.substr(sign + 1);
  const char separator = values.find('|') == std::string_view::npos ? ',' : '|';
  Axis axis{.key = std::string(text.substr(0, sign)),
            .values = absl::StrSplit(std::string(values), separator, absl::SkipWhitespace())};
  if (axis.values.empty()) return wrong(cat("--sweep ", text, ": there are no values"));
  return axis;
}

std::string PlannedRun::label() const {
  if (varied.empty()) return file.title;
  return absl::StrJoin(varied, ", ", [](std::string* out, const auto& one) {
    append(*out, short_name(one.first), " ", one.second);
  });
}

Result<std::vector<PlannedRun>> plan_runs(const ScenarioFile& file, const std::vector<Axis>& axes,
                                          std::uint64_t repeats) {
  std::size_t count = repeats;
  for (const Axis& axis : axes)
    count = std::min(count, kMaxRuns + 1) * axis.values.size();
  if (count > kMaxRuns)
    return wrong(cat("these are more than ", kMaxRuns, " runs; sweep fewer values"));
  std::vector<PlannedRun> runs;
  std::vector<std::size_t> at(axes.size(), 0);
  std::size_t point = 0;
  do {
    PlannedRun run{.file = file, .point = point++, .is_one_of_several_seeds = repeats > 1};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::string& value = axes[i].values[at[i]];
      const Status status = apply_override(run.file, cat(axes[i].key, "=", value), "--sweep");
      if (!status.ok()) return status.error();
      run.varied.emplace_back(axes[i].key, get_key(run.file.scenario, axes[i].key));
    }
    const Status status = check(run.file);
    if (!status.ok()) return status.error();
    for (std::uint64_t i = 0; i < repeats; ++i) {
      runs.push_back(run);
      ++run.file.scenario.seed;
    }
  } while (advance(at, axes));
  return runs;
}

}  // namespace spindrift::simtool
