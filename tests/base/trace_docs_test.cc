// docs/TRACE.md is the schema of the lines: every kind of event has its row there, with its level
// and exactly its members.
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/trace.h"

namespace spindrift {
namespace {

struct Row {
  std::string level;
  std::vector<std::string> members;
  std::string meaning;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t at = 1; at < line.size();) {
    const std::size_t end = std::min(line.find('|', at), line.size());
    std::string cell = line.substr(at, end - at);
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
    cells.push_back(cell);
    at = end + 1;
  }
  return cells;
}

std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find('`'); at != std::string::npos;) {
    const std::size_t end = text.find('`', at + 1);
    words.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
  }
  return words;
}

// The table with levels.
std::map<std::string, Row> documented() {
  std::map<std::string, Row> rows;
  std::ifstream file(SPINDRIFT_DOCS "/TRACE.md");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != 4) continue;
    rows[quoted(cells[0]).front()] = {cells[1], quoted(cells[2]), cells[3]};
  }
  return rows;
}

std::vector<std::string> members_of(const TraceKindInfo& info) {
  std::vector<std::string> members;
  if (info.has_path) members.emplace_back("path");
  for (const std::string_view name : {info.cause_name, info.first_name, info.second_name})
    if (!name.empty()) members.emplace_back(name);
  return members;
}

TEST(TraceDocs, DescribeEveryEventWithItsLevelAndMembers) {
  const auto rows = documented();
  EXPECT_EQ(rows.size(), kTraceKinds);
  for (std::size_t i = 0; i < kTraceKinds; ++i) {
    const auto kind = static_cast<TraceKind>(i);
    const TraceKindInfo& info = trace_kind_info(kind);
    const auto row = rows.find(std::string(info.name));
    ASSERT_NE(row, rows.end()) << info.name;
    EXPECT_EQ(row->second.level, std::to_string(level_of(kind))) << info.name;
    EXPECT_EQ(row->second.members, members_of(info)) << info.name;
  }
}

TEST(TraceDocs, NameEveryCause) {
  const auto rows = documented();
  for (const TraceKind kind : {TraceKind::kState, TraceKind::kRefused, TraceKind::kLoss})
    for (const std::string_view cause : trace_kind_info(kind).causes)
      EXPECT_THAT(rows.at(std::string(trace_kind_info(kind).name)).meaning,
                  ::testing::HasSubstr("`" + std::string(cause) + "`"));
}

}  // namespace
}  // namespace spindrift
