#include "tools/sim/scenario_file.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/sim/keys.h"
#include "tools/sim/plan.h"
#include "tools/sim/schema.h"
#include "tools/sim/shipped.h"

namespace spindrift::simtool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ScenarioKeys, EveryDefaultIsWhatItsKeyAllows) {
  sim::Scenario usual{.faults = {{}}};
  for (const std::string& name : key_names(usual)) {
    const std::string value = get_key(usual, name);
    const Status status = set_key(usual, name, value);
    EXPECT_TRUE(status.ok()) << name << " = " << value << ": "
                             << (status.ok() ? "" : status.error().message());
    EXPECT_EQ(get_key(usual, name), value) << name;
  }
}

TEST(ScenarioKeys, NumbersBeyondTheirBoundsAndUnknownNamesAreRefused) {
  sim::Scenario scenario;
  EXPECT_THAT(set_key(scenario, "transport.path_count", "0").error().message(),
              HasSubstr("1 .. 256"));
  EXPECT_THAT(set_key(scenario, "topology.name", "torus").error().message(),
              HasSubstr("leaf_spine"));
  EXPECT_THAT(set_key(scenario, "topology.hosst", "4").error().message(),
              HasSubstr("topology.hosts"));
  EXPECT_THAT(set_key(scenario, "faults[0].when", "1us").error().message(), HasSubstr("no such"));
  EXPECT_FALSE(set_key(scenario, "faults[999999].at", "1us").ok());
  EXPECT_FALSE(set_key(scenario, "faults[].at", "1us").ok());
  EXPECT_FALSE(set_key(scenario, "faults[0]", "1us").ok());
}

TEST(ScenarioFile, IsReadWithItsUnitsAndFaults) {
  const auto file = parse_scenario(R"(
title = "A test"
seed = 7
[topology]
hosts = 32
host_link.rate_bps = "400 Gb/s"
[workload]
bytes = "3 MiB"
load = 0.25
[[faults]]
kind = "flap"
from = "leaf0"
at = "10 us"
down_for = "5 us"
up_for = "5 us"
[[faults]]
kind = "rate"
from = "spine1"
value = 0.5
)",
                                   "a.toml", "");
  ASSERT_TRUE(file.ok()) << file.error().message();
  const sim::Scenario& scenario = file.value().scenario;
  EXPECT_EQ(file.value().title, "A test");
  EXPECT_EQ(scenario.seed, 7U);
  EXPECT_EQ(scenario.topology.hosts, 32U);
  EXPECT_EQ(scenario.topology.host_link.rate_bps, 400'000'000'000U);
  EXPECT_EQ(scenario.workload.bytes, 3U << 20U);
  EXPECT_DOUBLE_EQ(scenario.workload.load, 0.25);
  ASSERT_EQ(scenario.faults.size(), 2U);
  EXPECT_EQ(scenario.faults[0].kind, sim::FaultSpec::Kind::kFlap);
  EXPECT_EQ(scenario.faults[0].at, 10 * sim::kMicrosecond);
  EXPECT_DOUBLE_EQ(scenario.faults[1].value, 0.5);
}

TEST(ScenarioFile, SaysInWhichLinesItIsWrong) {
  const auto file =
      parse_scenario("seed = 1\n[topology]\nhosts = \"many\"\nhots = 3\n", "a.toml", "");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message(), HasSubstr("a.toml:3: topology.hosts"));
  EXPECT_THAT(file.error().message(), HasSubstr("a.toml:4: topology.hots"));
  const auto broken = parse_scenario("seed = 1\nend = = 2\n", "b.toml", "");
  ASSERT_FALSE(broken.ok());
  EXPECT_THAT(broken.error().message(), HasSubstr("b.toml:2:"));
  EXPECT_FALSE(parse_scenario("topology = [1, 2]\n", "c.toml", "").ok());
  EXPECT_FALSE(parse_scenario("faults = [1]\n", "d.toml", "").ok());
  EXPECT_FALSE(parse_scenario("end = 1979-05-27\n", "e.toml", "").ok());
}

TEST(ScenarioFile, ComplaintsNameWhereTheValueCameFrom) {
  auto file =
      parse_scenario("[network]\nkmin_bytes = \"64 KiB\"\nkmax_bytes = \"1 KiB\"\n", "a.toml", "");
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(check(file.value()).error().message(), HasSubstr("a.toml:3: network.kmax_bytes"));
  ASSERT_TRUE(apply_override(file.value(), "network.kmax_bytes=2 KiB", "command line").ok());
  EXPECT_THAT(check(file.value()).error().message(),
              HasSubstr("command line: network.kmax_bytes is 2 KiB"));
}

TEST(ScenarioFile, FilesThatItNamesLieBesideIt) {
  const auto file = parse_scenario("[topology]\nfile = \"net.topo\"\n", "a.toml", "/data/x");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value().scenario.topology.file, "/data/x/net.topo");
}

TEST(ScenarioFile, WhatShipsIsRightAndCanBePrintedAndReadAgain) {
  ASSERT_GE(shipped_scenarios().size(), 10U);
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    const auto file = parse_scenario(shipped.text, shipped.name, "");
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_TRUE(check(file.value()).ok()) << shipped.name;
    EXPECT_FALSE(file.value().title.empty()) << shipped.name;
    EXPECT_FALSE(file.value().description.empty()) << shipped.name;
    const std::string text = to_toml(file.value());
    const auto again = parse_scenario(text, "again", "");
    ASSERT_TRUE(again.ok()) << again.error().message() << text;
    for (const std::string& name : key_names(file.value().scenario))
      EXPECT_EQ(get_key(again.value().scenario, name), get_key(file.value().scenario, name))
          << name;
  }
}

TEST(Plans, AreTheProductOfWhatIsSweptAndTheSeeds) {
  const Axis hosts = parse_axis("topology.hosts=8,16").value();
  const Axis bytes = parse_axis("workload.bytes=1 MiB|2 MiB").value();
  const auto runs = plan_runs({}, {hosts, bytes}, 3);
  ASSERT_TRUE(runs.ok()) << runs.error().message();
  ASSERT_EQ(runs.value().size(), 12U);
  EXPECT_EQ(runs.value()[2].point, 0U);
  EXPECT_EQ(runs.value()[2].file.scenario.seed, 3U);
  EXPECT_EQ(runs.value()[3].point, 1U);
  EXPECT_EQ(runs.value()[3].file.scenario.seed, 1U);
  EXPECT_EQ(runs.value()[3].label(), "hosts 8, bytes 2 MiB");
  EXPECT_EQ(runs.value()[11].file.scenario.topology.hosts, 16U);
}

TEST(Plans, OfImpossibleRunsAreRefused) {
  EXPECT_FALSE(parse_axis("topology.hosts").ok());
  EXPECT_FALSE(parse_axis("topology.hosts=").ok());
  EXPECT_THAT(plan_runs({}, {{.key = "topology.hosts", .values = {"8", "x"}}}, 1).error().message(),
              HasSubstr("--sweep topology.hosts"));
  EXPECT_THAT(plan_runs({}, {}, 1'000'000).error().message(), HasSubstr("more than"));
}

TEST(Schema, IsTheOneThatTheDocumentsShip) {
  std::ifstream in(std::string(SPINDRIFT_DOCS) + "/scenario.schema.json");
  const std::string shipped{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(shipped, schema_text())
      << "write it anew: spindrift sim --schema > docs/scenario.schema.json";
}

}  // namespace
}  // namespace spindrift::simtool
