#include "transport/base/text_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using ::testing::ElementsAre;

TEST(Split, GivesOnePartMoreThanThereAreSeparators) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split(",b,", ','), ElementsAre("", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(ParseNumber, TakesDigitsAloneAndWhatFits) {
  EXPECT_EQ(parse_number("4294967295"), 4294967295U);
  for (const char* wrong : {"", "4294967296", "-1", "+1", " 1", "1k"})
    EXPECT_FALSE(parse_number(wrong)) << wrong;
}

}  // namespace
}  // namespace spindrift
