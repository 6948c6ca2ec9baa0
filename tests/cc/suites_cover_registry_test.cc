// Whatever is registered is also in its contract suite: forgetting the second line fails here.
#include <set>

#include "spindrift/open.h"

#include "tests/cc/algorithms_under_test.h"
#include "tests/paths/policies_under_test.h"

namespace spindrift::test {
namespace {

TEST(ContractSuites, CoverEveryRegisteredCongestionControl) {
  std::set<std::string_view> registered, tested;
  for (const CcInfo& info : builtin_registry().congestion_controls())
    registered.insert(info.name);
  for (const CcInfo* info : kAlgorithms)
    tested.insert(info->name);
  EXPECT_EQ(registered, tested);
}

TEST(ContractSuites, CoverEveryRegisteredPathPolicy) {
  std::set<std::string_view> registered, tested;
  for (const PathSelectorInfo& info : builtin_registry().path_selectors()) {
    registered.insert(info.name);
  }
  for (const PathSelectorInfo* info : kPolicies)
    tested.insert(info->name);
  EXPECT_EQ(registered, tested);
}

}  // namespace
}  // namespace spindrift::test
