#pragma once
// Every path policy that ships and a few ways to drive one.
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "spindrift/path_selector.h"

#include "transport/paths/policies.h"

namespace spindrift {
inline void PrintTo(const PathSelectorInfo* info, std::ostream* out) {
  *out << info->name;
}
}  // namespace spindrift

namespace spindrift::test {

inline const PathSelectorInfo* const kPolicies[] = {
    &kSinglePathPolicy, &kRoundRobinPathPolicy, &kBitmapPathPolicy,
    &kRepsPathPolicy,   &kMixedPathPolicy,      &kLeastRttPathPolicy,
};

class FieldCollector final : public StateWriter {
 public:
  void field(std::string_view name, double value) override {
    fields.emplace_back(std::string(name), value);
  }
  double at(std::string_view name) const {
    for (const auto& field : fields) {
      if (field.first == name) return field.second;
    }
    ADD_FAILURE() << "no field " << name;
    return -1;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& field : fields)
      result.push_back(field.first);
    return result;
  }
  std::vector<std::pair<std::string, double>> fields;
};

inline PathId pick_one(PathSelector& selector) {
  PathId path{};
  selector.pick({&path, 1});
  return path;
}

inline PathFeedback feedback_of(std::uint32_t path, PathOutcome outcome, std::uint32_t packets = 1,
                                Duration rtt = {}) {
  return {.path = PathId{static_cast<std::uint16_t>(path)},
          .outcome = outcome,
          .packets = packets,
          .rtt = rtt};
}

inline void tell(PathSelector& selector, const PathFeedback& feedback) {
  selector.on_feedback({&feedback, 1});
}

}  // namespace spindrift::test
