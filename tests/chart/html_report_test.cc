// The report of runs made by hand, and of real ones.
#include "tools/sim/plots/html_report.h"

#include <algorithm>

#include "spindrift/open.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/chart/well_formed.h"
#include "tools/sim/plots/report_tables.h"

namespace spindrift::simtool {
namespace {

using sim::kMicrosecond;
using testing::HasSubstr;
using testing::Not;

ReportedRun run_of(std::string title, sim::Picoseconds took) {
  ReportedRun run{.title = std::move(title)};
  run.scenario.workload.name = "one_flow";
  run.results.simulated = took;
  run.results.flows.push_back({.destination = 1, .bytes = 1000, .finish = took, .ideal = took / 2});
  return run;
}

ReportedRun really_run(const std::string& congestion_control) {
  ReportedRun run{.title = congestion_control};
  run.scenario.topology = {.hosts = 8, .hosts_per_leaf = 4};
  run.scenario.workload.name = "incast";
  run.scenario.workload.fan_in = 5;
  run.scenario.workload.bytes = 128U << 10U;
  run.scenario.transport.congestion_control = congestion_control;
  run.scenario.transport.path_count = 8;
  run.scenario.sample_every = kMicrosecond;
  auto outcome = sim::run(run.scenario, builtin_registry());
  if (const auto* complaints = std::get_if<sim::RunError>(&outcome))
    ADD_FAILURE() << sim::to_string(complaints->front());
  else
    run.results = std::get<sim::Results>(std::move(outcome));
  run.results.run_seconds = 0;  // the one number that differs from run to run
  return run;
}

TEST(HtmlReport, IsOneWellFormedPageThatLoadsNothing) {
  const std::vector<ReportedRun> runs = {really_run("nscc"), really_run("dcqcn")};
  const std::string page = html_report("Incast", runs);
  EXPECT_EQ(chart::what_is_ill_formed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  for (const char* title :
       {"Rates over time", "Windows over time", "Pacing rates over time", "Queues over time",
        "Completion times", "Load of the links", "Share per path", "What differs", "Comparison"})
    EXPECT_THAT(page, HasSubstr(std::string(">") + title + "<")) << title;
}

TEST(HtmlReport, IsTheSameForTheSameRuns) {
  const std::vector<ReportedRun> once = {really_run("dcqcn")};
  const std::vector<ReportedRun> again = {really_run("dcqcn")};
  EXPECT_EQ(html_report("x", once), html_report("x", again));
}

TEST(HtmlReport, OfOneRunComparesNothing) {
  const std::vector<ReportedRun> runs = {run_of("alone", 10 * kMicrosecond)};
  const std::string page = html_report("x", runs);
  EXPECT_EQ(chart::what_is_ill_formed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("What differs")));
  EXPECT_THAT(page, Not(HasSubstr("id=\"comparison\"")));
  EXPECT_THAT(page, HasSubstr("set sample_every"));
}

TEST(HtmlReport, EscapesTitles) {
  const std::vector<ReportedRun> runs = {run_of("<b>&\"a\"", kMicrosecond),
                                         run_of("</main>", kMicrosecond)};
  const std::string page = html_report("</title><script>", runs);
  EXPECT_EQ(chart::what_is_ill_formed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
}

TEST(HtmlReport, WarnsOfWhatWentWrong) {
  ReportedRun run = run_of("bad", kMicrosecond);
  run.results.flows.push_back({.destination = 2, .error = "no path to host2 is alive"});
  run.results.deadlocks = {"each waits for the next, paused: a>b, b>a, and again the first"};
  run.results.payload_errors = 3;
  const std::vector<ReportedRun> runs = {run};
  const std::string page = html_report("x", runs);
  EXPECT_THAT(page, HasSubstr("1 of 2 flows did not finish"));
  EXPECT_THAT(page, HasSubstr("host0→host2 failed: no path to host2 is alive"));
  EXPECT_THAT(page, HasSubstr("a deadlock of paused ports"));
  EXPECT_THAT(page, HasSubstr("3 flows delivered wrong bytes"));
}

TEST(HtmlReport, DrawsTheFirstOfMany) {
  std::vector<ReportedRun> runs;
  runs.reserve(50);
  for (int i = 0; i < 50; ++i)
    runs.push_back(run_of("run " + std::to_string(i), (i + 1) * kMicrosecond));
  const std::string page = html_report("x", runs);
  EXPECT_EQ(chart::what_is_ill_formed(page), "");
  EXPECT_THAT(page, HasSubstr("Of the first 8 of 50 runs."));
  EXPECT_THAT(page, HasSubstr("The first 40 of 50 runs."));
  EXPECT_THAT(page, HasSubstr(">run 49<"));
}

TEST(HtmlReport, OfNoRunIsAPageThatSaysSo) {
  const std::string page = html_report("x", {});
  EXPECT_EQ(chart::what_is_ill_formed(page), "");
  EXPECT_THAT(page, HasSubstr("There are no runs."));
}

TEST(Configuration, SetsWhatDiffersApart) {
  std::vector<ReportedRun> runs = {run_of("a", kMicrosecond), run_of("b", kMicrosecond)};
  runs[1].scenario.transport.congestion_control = "dcqcn";
  runs[1].scenario.faults.push_back({.from = "leaf0", .to = "spine0", .at = kMicrosecond});
  const Configuration configuration = compare_configurations(runs);
  ASSERT_GE(configuration.differing.size(), 2U);
  EXPECT_EQ(configuration.differing[0], "transport.congestion_control");
  EXPECT_EQ(configuration.values[0][0], "nscc");
  EXPECT_EQ(configuration.values[1][0], "dcqcn");
  EXPECT_THAT(configuration.differing, testing::Contains("faults[0].from"));
  EXPECT_EQ(configuration.values[0].back(), "–");
  EXPECT_THAT(configuration.common, testing::Contains(testing::Pair("seed", "1")));
}

TEST(Configuration, ShowsWhatTheNetworkDecided) {
  std::vector<ReportedRun> runs = {run_of("a", kMicrosecond)};
  runs[0].scenario.network.queue_bytes = 100U << 10U;
  const Configuration configuration = compare_configurations(runs);
  EXPECT_THAT(configuration.common,
              testing::Contains(testing::Pair("network.queue_bytes", "100 KiB")));
  EXPECT_THAT(configuration.common,
              testing::Contains(testing::Pair("network.kmin_bytes", "20 KiB (derived)")));
}

TEST(ResultTables, MarkTheBestUnlessAllAreTheSame) {
  const std::vector<ReportedRun> runs = {run_of("a", 20 * kMicrosecond),
                                         run_of("b", 10 * kMicrosecond)};
  const std::vector<Summary> summaries = {summarise(runs[0].results), summarise(runs[1].results)};
  const auto tables = result_tables(runs, summaries);
  const Table& completion = tables.at(0).table;
  ASSERT_EQ(completion.rows.size(), 2U);
  const auto column = std::find(completion.columns.begin(), completion.columns.end(), "Max") -
                      completion.columns.begin();
  const auto at = static_cast<std::size_t>(column);
  EXPECT_EQ(completion.rows[0].at(at).text, "20.0 µs");
  EXPECT_FALSE(completion.rows[0].at(at).is_best);
  EXPECT_TRUE(completion.rows[1].at(at).is_best);
  EXPECT_FALSE(completion.rows[0].at(2).is_best);  // unfinished: none in both
  EXPECT_FALSE(completion.rows[1].at(2).is_best);
}

}  // namespace
}  // namespace spindrift::simtool
