#include <set>

#include <gtest/gtest.h>

#include "spindrift/endpoint.h"
#include "spindrift/work.h"

namespace spindrift {
namespace {

// Counts distinct names of the values 0..last; one above last must be "unknown ...".
template <class Enum>
std::size_t distinct_names(Enum last) {
  std::set<std::string_view> names;
  const int end = static_cast<int>(last);
  for (int value = 0; value <= end; ++value) {
    const std::string_view name = to_string(static_cast<Enum>(value));
    EXPECT_FALSE(name.empty());
    EXPECT_FALSE(name.starts_with("unknown ")) << value;
    names.insert(name);
  }
  EXPECT_TRUE(to_string(static_cast<Enum>(end + 1)).starts_with("unknown "));
  return names.size();
}

TEST(WorkNames, EveryValueHasItsOwnName) {
  EXPECT_EQ(distinct_names(OpKind::kCompareSwap), 7U);
  EXPECT_EQ(distinct_names(OpStatus::kFlushed), 11U);
  EXPECT_EQ(distinct_names(ConnState::kFailed), 6U);
}

TEST(WorkNames, AreWordsForUsers) {
  EXPECT_EQ(to_string(OpKind::kWriteImm), "write with immediate");
  EXPECT_EQ(to_string(OpStatus::kTimedOut), "timed out");
  EXPECT_EQ(to_string(ConnState::kDraining), "draining");
}

}  // namespace
}  // namespace spindrift
