#include "transport/base/printable.h"

#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(Printable, KeepsWordsOfAnyLanguageAndSpellsOutTheRest) {
  EXPECT_EQ(printable("plain text, \u00e9 \u4e2d \U0001f600"),
            "plain text, \u00e9 \u4e2d \U0001f600");
  EXPECT_EQ(printable(std::string_view("\0\t\r", 3)), "\\x00\\x09\\x0d");
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8");  // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");  // no shortest form
  EXPECT_EQ(printable(""), "");
}

}  // namespace
}  // namespace spindrift
