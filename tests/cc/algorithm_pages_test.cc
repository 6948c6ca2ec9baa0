// docs/cc/NAME.md has the parameters of each algorithm exactly as the registry has them.
#include <fstream>

#include <absl/strings/str_format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

namespace spindrift::test {
namespace {

using ::testing::HasSubstr;

std::string page_of(std::string_view name) {
  std::ifstream file(absl::StrFormat("%s/cc/%s.md", SPINDRIFT_DOCS, std::string(name)));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string table_of(const CcInfo& info) {
  if (info.parameters.empty()) return "";
  std::string out =
      "| parameter | unit | default | bounds | meaning | source |\n|---|---|---|---|---|---|\n";
  for (const ParameterInfo& one : info.parameters)
    out += absl::StrFormat("| `%s` | %s | %g | %g..%g | %s | %s |\n", one.name, one.unit,
                           one.default_value, one.min, one.max, one.help, one.source);
  return out;
}

TEST(AlgorithmPages, HaveTheParametersOfTheRegistry) {
  for (const CcInfo& info : builtin_registry().congestion_controls()) {
    const std::string page = page_of(info.name);
    ASSERT_FALSE(page.empty()) << "docs/cc/" << info.name << ".md is missing";
    EXPECT_THAT(page, HasSubstr("\n" + table_of(info) + "\n"));
  }
}

std::string sets_of(const CcInfo& info) {
  std::string out = "| parameter |";
  std::string rule = "|---|";
  for (const ParameterSet& set : info.sets) {
    out += absl::StrFormat(" `set=%s` |", set.name);
    rule += "---|";
  }
  out += "\n" + rule + "\n";
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    out += absl::StrFormat("| `%s` |", info.parameters[i].name);
    for (const ParameterSet& set : info.sets)
      out += absl::StrFormat(" %g |", set.values[i]);
    out += "\n";
  }
  return out;
}

TEST(AlgorithmPages, HaveTheSetsOfTheRegistry) {
  for (const CcInfo& info : builtin_registry().congestion_controls()) {
    if (info.sets.empty()) continue;
    EXPECT_THAT(page_of(info.name), HasSubstr("\n" + sets_of(info) + "\n"));
  }
}

TEST(AlgorithmPages, HaveEverySection) {
  for (const CcInfo& info : builtin_registry().congestion_controls()) {
    const std::string page = page_of(info.name);
    for (const char* section : {"## What it reacts to", "## Rules", "## Parameters", "## When"})
      EXPECT_THAT(page, HasSubstr(section)) << info.name;
  }
}

TEST(AlgorithmPages, AreListed) {
  const std::string list = page_of("README");
  for (const CcInfo& info : builtin_registry().congestion_controls())
    EXPECT_THAT(list, HasSubstr(absl::StrFormat("\n| [`%s`](%s.md) | %s |", info.name, info.name,
                                                info.summary)));
}

}  // namespace
}  // namespace spindrift::test
