#include "tools/chart/svg.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/well_formed.h"

namespace spindrift::chart {
namespace {

using testing::HasSubstr;

TEST(Svg, EscapesWhatXmlReserves) {
  EXPECT_EQ(escape_xml("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
}

TEST(Svg, ReplacesWhatXmlCannotHold) {
  EXPECT_EQ(escape_xml("a\x01\nb"), "a  b");
  EXPECT_EQ(escape_xml("µ → 界"), "µ → 界");
  EXPECT_EQ(escape_xml("a\xff\xc0\x80z"), "a   z");  // no lead byte, overlong
  EXPECT_EQ(escape_xml("\xe2\x82"), "  ");           // cut off
  EXPECT_EQ(escape_xml("\xed\xa0\x80"), "   ");      // a surrogate
  EXPECT_EQ(escape_xml("\xef\xbf\xbf"), "   ");      // excluded by XML
}

TEST(Svg, WritesCoordinatesShort) {
  EXPECT_EQ(pixels(12), "12");
  EXPECT_EQ(pixels(12.04), "12");
  EXPECT_EQ(pixels(12.06), "12.1");
  EXPECT_EQ(pixels(-0.01), "0");
}

TEST(Svg, CutsLongTextAtAWholeCharacter) {
  EXPECT_EQ(fitted("short", 12, 100), "short");
  const std::string cut = fitted("µµµµµµµµµµ", 10, 40);
  EXPECT_LE(text_width(cut, 10), 40);
  EXPECT_EQ(cut, "µµµµµ…");
}

TEST(Svg, StaysWellFormedWhateverTheTextSays) {
  Svg svg(100, 50, "<script>&\"");
  svg.text(1, 2, "</text></svg>\x02", {.is_bold = true, .is_upright = true});
  svg.begin_clip({.width = 10, .height = 10});
  svg.line(0, 0, 1, 1, {.dashes = "2 2"});
  svg.end_clip();
  const std::string made = svg.finish();
  EXPECT_EQ(what_is_ill_formed(made), "");
  EXPECT_THAT(made, HasSubstr("&lt;script&gt;"));
}

}  // namespace
}  // namespace spindrift::chart
