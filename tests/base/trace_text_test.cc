#include "transport/base/trace_text.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "spindrift/work.h"

namespace spindrift {
namespace {

TEST(TraceText, WritesOneObjectWithTheMembersOfItsKind) {
  EXPECT_EQ(to_json({.at = Time(Duration(1000)),
                     .first = 4294967300,
                     .second = 2,
                     .conn = ConnId{65536},
                     .path = 3,
                     .kind = TraceKind::kLoss,
                     .cause = 1}),
            "{\"t_ns\":1000,\"event\":\"loss\",\"conn\":65536,\"path\":3,\"cause\":\"trimmed\","
            "\"psn\":4294967300,\"transmissions\":2}");
}

TEST(TraceText, LeavesOutWhatAKindDoesNotHave) {
  EXPECT_EQ(to_json({.conn = ConnId{1}, .kind = TraceKind::kState, .cause = 3}),
            "{\"t_ns\":0,\"event\":\"state\",\"conn\":1,\"state\":\"open\"}");
}

TEST(TraceText, EveryKindHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kTraceKinds; ++i)
    names.insert(trace_kind_info(static_cast<TraceKind>(i)).name);
  EXPECT_EQ(names.size(), kTraceKinds);
  EXPECT_EQ(names.count(""), 0U);
}

TEST(TraceText, EveryStatusHasAName) {
  const auto statuses = trace_kind_info(TraceKind::kCompletionError).causes;
  ASSERT_EQ(statuses.size(), static_cast<std::size_t>(OpStatus::kFlushed) + 1);
  EXPECT_EQ(statuses[static_cast<std::size_t>(OpStatus::kPeerGone)], "peer_gone");
  EXPECT_EQ(statuses[static_cast<std::size_t>(OpStatus::kRemoteBounds)], "remote_bounds");
  EXPECT_EQ(statuses[static_cast<std::size_t>(OpStatus::kFlushed)], "flushed");
}

TEST(TraceText, SurvivesATornEvent) {
  const std::string line = to_json({.kind = static_cast<TraceKind>(200), .cause = 200});
  EXPECT_EQ(line.back(), '}');
  EXPECT_NE(to_json({.kind = TraceKind::kState, .cause = 200}).find("\"unknown\""),
            std::string::npos);
}

TEST(TraceText, TheLongestLineFits) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  for (std::size_t i = 0; i < kTraceKinds; ++i) {
    std::array<char, kMaxTraceLine> line{};
    const TraceEvent event{.at = Time(Duration(-1)),
                           .first = kMost,
                           .second = kMost,
                           .conn = ConnId{0xffffffff},
                           .path = 65535,
                           .kind = static_cast<TraceKind>(i),
                           .cause = 2};
    const std::size_t length = format_trace_line(event, line);
    ASSERT_LT(length, kMaxTraceLine);
    EXPECT_EQ(line[length - 1], '\n');
  }
}

}  // namespace
}  // namespace spindrift
