#include "tools/sim/plots/html_report.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tools/sim/plots/plots.h"
#include "tools/sim/plots/report_tables.h"

namespace spindrift::simtool {
namespace {

using chart::Quantity;
// Two of them stand side by side on a page of 1200 pixels.
constexpr double kNarrowFigure = 575;
constexpr double kWideFigure = 960;

using Runs = std::span<const ReportedRun>;
using Summaries = std::span<const Summary>;

void write_figure(HtmlWriter& html, std::string_view svg, std::string_view caption = {}) {
  html.open("figure", " class=\"card\"");
  if (!caption.empty()) html.element("figcaption", caption);
  html.markup(svg);
  html.close();
}

void write_warnings(HtmlWriter& html, Runs runs, Summaries summaries) {
  const auto warn = [&](const ReportedRun& run, const std::string& sentence) {
    html.open("p", " class=\"warning\"");
    html.element("strong", run.title);
    html.text(absl::StrCat(": ", sentence));
    html.close();
  };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const sim::Results& results = runs[i].results;
    if (summaries[i].unfinished > 0)
      warn(runs[i], absl::StrCat(summaries[i].unfinished, " of ", summaries[i].flows,
                                 " flows did not finish; completion times are of the others."));
    const auto failed =
        std::find_if(results.flows.begin(), results.flows.end(),
                     [](const sim::FlowRecord& flow) { return !flow.error.empty(); });
    if (failed != results.flows.end())
      warn(runs[i], absl::StrCat("the connection host", failed->source, "→host",
                                 failed->destination, " failed: ", failed->error));
    for (const std::string& cycle : results.deadlocks)
      warn(runs[i], absl::StrCat("a deadlock of paused ports; ", cycle, "."));
    if (results.payload_errors > 0)
      warn(runs[i], absl::StrCat(results.payload_errors, " flows delivered wrong bytes."));
  }
}

std::string introduction(Runs runs) {
  if (runs.empty()) return "There are no runs.";
  if (runs.size() == 1) return describe(runs.front().scenario);
  return absl::StrCat(runs.size(), " simulated runs side by side.");
}

void write_head(HtmlWriter& html, std::string_view title, Runs runs) {
  html.markup("<!DOCTYPE html>\n");
  html.open("html", " lang=\"en\"");
  html.open("head");
  html.markup(
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
  html.element("title", title);
  html.open("style");
  html.markup(report_style());
  html.close();
  html.close();
  html.open("body");
  html.open("main");
  html.element("h1", title);
  html.element("p", introduction(runs), " class=\"faint\"");
  if (runs.empty()) return;
  html.open("nav");
  if (runs.size() > 1) html.element("a", "What differs", " href=\"#differences\"");
  html.element("a", "Results", " href=\"#results\"");
  if (runs.size() > 1) html.element("a", "Comparison", " href=\"#comparison\"");
  html.element("a", "Figures", " href=\"#figures\"");
  html.element("a", "Configuration", " href=\"#configuration\"");
  html.close();
}

void write_differences(HtmlWriter& html, Runs runs, const Configuration& configuration) {
  html.open("section", " id=\"differences\"");
  html.element("h2", "What differs");
  if (configuration.differing.empty())
    html.element("p", "Nothing: all runs have the same configuration.");
  else
    write(html, difference_table(runs, configuration));
  html.close();
}

void write_results(HtmlWriter& html, Runs runs, Summaries summaries) {
  html.open("section", " id=\"results\"");
  html.element("h2", "Results");
  write_warnings(html, runs, summaries);
  if (runs.size() > 1)
    html.element("p", "The best of a column stands in bold green where less or more is better.",
                 " class=\"faint\"");
  for (const TitledTable& table : result_tables(runs, summaries)) {
    html.element("h3", table.title);
    html.element("p", table.explanation, " class=\"faint\"");
    write(html, table.table);
  }
  html.close();
}

struct Comparison {
  std::string title{};
  std::string subtitle{};
  chart::Axis axis{};
  std::vector<std::pair<std::string, std::function<chart::Bar(const Summary&)>>> series{};
};

std::vector<Comparison> comparisons() {
  const auto bar = [](double (*value)(const Summary&)) {
    return [value](const Summary& summary) { return chart::Bar{.value = value(summary)}; };
  };
  return {{.title = "Flow completion time",
           .subtitle = "Whiskers: the fastest and the slowest flow. Less is better.",
           .axis = {.title = "Completion time", .quantity = Quantity::kTime},
           .series = {{"mean",
                       [](const Summary& s) {
                         return chart::Bar{.value = s.completion_ps.mean,
                                           .low = s.completion_ps.min,
                                           .high = s.completion_ps.max};
                       }},
                      {"p99", bar([](const Summary& s) { return s.completion_ps.p99; })}}},
          {.title = "Goodput",
           .subtitle = "Payload of finished flows over the simulated time. More is better.",
           .axis = {.title = "Goodput", .quantity = Quantity::kBitRate},
           .series = {{"", bar([](const Summary& s) { return s.goodput_bps; })}}},
          {.title = "Queues",
           .subtitle = "Of the port where they are longest. Less is better.",
           .axis = {.title = "Data waiting", .quantity = Quantity::kBytes},
           .series = {{"mean over time", bar([](const Summary& s) { return s.mean_queue_bytes; })},
                      {"longest", bar([](const Summary& s) {
                         return static_cast<double>(s.max_queue_bytes);
                       })}}},
          {.title = "Packets sent again, dropped and trimmed",
           .subtitle = "In the whole network. Less is better.",
           .axis = {.title = "Packets"},
           .series = {
               {"sent again",
                bar([](const Summary& s) { return static_cast<double>(s.retransmits()); })},
               {"dropped", bar([](const Summary& s) { return static_cast<double>(s.drops); })},
               {"trimmed", bar([](const Summary& s) { return static_cast<double>(s.trims); })}}}};
}

void write_comparison(HtmlWriter& html, Runs all, Summaries summaries) {
  const Runs runs = all.first(std::min(all.size(), kBarsMax));
  html.open("section", " id=\"comparison\"");
  html.element("h2", "Comparison");
  if (runs.size() < all.size())
    html.element("p", absl::StrCat("The first ", runs.size(), " of ", all.size(), " runs."));
  html.open("div", " class=\"grid several\"");
  for (const Comparison& comparison : comparisons()) {
    chart::BarChart chart{.title = comparison.title,
                          .subtitle = comparison.subtitle,
                          .width = kNarrowFigure,
                          .value = comparison.axis};
    for (const ReportedRun& run : runs)
      chart.categories.push_back(run.title);
    for (const auto& [name, bar_of] : comparison.series) {
      chart.series.push_back({.name = name});
      for (std::size_t i = 0; i < runs.size(); ++i)
        chart.series.back().bars.push_back(bar_of(summaries[i]));
    }
    write_figure(html, to_svg(chart));
  }
  html.close();
  std::vector<NamedResults> named;
  for (const ReportedRun& run : runs.first(std::min(runs.size(), kDrawnRunsMax)))
    named.push_back({.name = run.title, .results = &run.results});
  const Plot plot = compare_completions(
      named, named.size() < all.size()
                 ? absl::StrCat("The first ", named.size(), " of ", all.size(), " runs")
                 : absl::StrCat(named.size(), " runs"));
  html.element("h3", plot.title);
  if (plot.missing.empty())
    write_figure(html, draw(plot, kWideFigure));
  else
    html.element("p", plot.missing);
  html.close();
}

// All runs' plots of one kind, in one row where the page is wide enough.
void write_kind(HtmlWriter& html, Runs runs, std::vector<std::vector<Plot>>& plots,
                const Plot& kind) {
  std::vector<std::pair<const ReportedRun*, Plot*>> same;
  std::vector<Plot*> drawn;
  for (std::size_t run = 0; run < plots.size(); ++run)
    for (Plot& plot : plots[run])
      if (plot.name == kind.name) {
        same.emplace_back(&runs[run], &plot);
        if (plot.missing.empty()) drawn.push_back(&plot);
      }
  share_scales(drawn);
  html.element("h3", kind.title);
  const bool is_one_reason =
      drawn.empty() && std::all_of(same.begin(), same.end(), [&](const auto& one) {
        return one.second->missing == same.front().second->missing;
      });
  if (is_one_reason) {
    html.element("p", same.front().second->missing);
    return;
  }
  html.open("div", runs.size() > 1 ? " class=\"grid several\"" : " class=\"grid\"");
  for (const auto& [run, plot] : same) {
    const std::string caption = runs.size() > 1 ? run->title : std::string();
    if (plot->missing.empty())
      write_figure(html, draw(*plot, runs.size() > 1 ? kNarrowFigure : kWideFigure), caption);
    else
      html.element("p", absl::StrCat(run->title, ": ", plot->missing));
  }
  html.close();
}

void write_figures(HtmlWriter& html, Runs all) {
  const Runs runs = all.first(std::min(all.size(), kDrawnRunsMax));
  html.open("section", " id=\"figures\"");
  html.element("h2", "Figures");
  if (runs.size() < all.size())
    html.element("p", absl::StrCat("Of the first ", runs.size(), " of ", all.size(), " runs."));
  if (runs.size() > 1)
    html.element("p", "Figures of one kind have the same scales.", " class=\"faint\"");
  std::vector<std::vector<Plot>> plots;
  std::vector<Plot> kinds;
  for (const ReportedRun& run : runs) {
    plots.push_back(plots_of(run.scenario, run.results));
    for (const Plot& plot : plots.back())
      if (std::none_of(kinds.begin(), kinds.end(),
                       [&](const Plot& kind) { return kind.name == plot.name; }))
        kinds.push_back({.name = plot.name, .title = plot.title});
  }
  for (const Plot& kind : kinds)
    write_kind(html, runs, plots, kind);
  html.close();
}

void write_configuration(HtmlWriter& html, const Configuration& configuration, bool is_one) {
  html.open("section", " id=\"configuration\"");
  html.element("h2", is_one ? "Configuration" : "Configuration that all runs share");
  html.open("dl", " class=\"card\"");
  for (const auto& [key, value] : configuration.common) {
    html.open("div");
    html.element("dt", key);
    html.element("dd", value);
    html.close();
  }
  html.close();
  html.close();
}

}  // namespace

std::string html_report(std::string_view title, std::span<const ReportedRun> runs) {
  std::vector<Summary> summaries;
  summaries.reserve(runs.size());
  for (const ReportedRun& run : runs)
    summaries.push_back(summarise(run.results));
  const Configuration configuration = compare_configurations(runs);
  HtmlWriter html;
  write_head(html, title, runs);
  if (runs.empty()) return html.finish();
  if (runs.size() > 1) write_differences(html, runs, configuration);
  write_results(html, runs, summaries);
  if (runs.size() > 1) write_comparison(html, runs, summaries);
  write_figures(html, runs);
  write_configuration(html, configuration, runs.size() == 1);
  return html.finish();
}

}  // namespace spindrift::simtool
