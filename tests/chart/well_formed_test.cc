#include "tests/chart/well_formed.h"

#include "gtest/gtest.h"

namespace spindrift::chart {
namespace {

TEST(WellFormed, TakesWhatTheFiguresUse) {
  EXPECT_EQ(what_is_ill_formed("<a b=\"1 &lt; 2\">x &amp; y<c d=\"\"/>\n</a>\n"), "");
  EXPECT_EQ(what_is_ill_formed("<!DOCTYPE html>\n<html lang=\"en\"></html>"), "");
}

TEST(WellFormed, NamesEveryFault) {
  EXPECT_NE(what_is_ill_formed("<a><b></a></b>"), "");
  EXPECT_NE(what_is_ill_formed("<a>"), "");
  EXPECT_NE(what_is_ill_formed("<a/><a/>"), "");
  EXPECT_NE(what_is_ill_formed("<a b=1/>"), "");
  EXPECT_NE(what_is_ill_formed("<a b=\"1\" b=\"2\"/>"), "");
  EXPECT_NE(what_is_ill_formed("<a b=\"<\"/>"), "");
  EXPECT_NE(what_is_ill_formed("<a>1 & 2</a>"), "");
  EXPECT_NE(what_is_ill_formed("<a>1 < 2</a>"), "");
  EXPECT_NE(what_is_ill_formed("<a>\x01</a>"), "");
  EXPECT_NE(what_is_ill_formed("x<a/>"), "");
  EXPECT_NE(what_is_ill_formed(""), "");
}

}  // namespace
}  // namespace spindrift::chart
