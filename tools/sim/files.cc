#include "tools/sim/files.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/sim/output.h"
#include "tools/sim/plots/html_report.h"
#include "tools/sim/plots/plots.h"
#include "tools/sim/plots/png.h"
#include "tools/sim/text.h"

namespace spindrift::simtool {
namespace {

Error refused(std::string_view what, const std::string& name, int error) {
  return Error(ErrorCode::kIo, cat("cannot ", what, " ", name, ": ",
                                   std::system_category().message(error == 0 ? EIO : error)));
}

Status write_file(const std::string& name, const std::string& text) {
  errno = 0;
  std::FILE* file = std::fopen(name.c_str(), "w");
  if (file == nullptr) return refused("write", name, errno);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (std::fclose(file) != 0 && is_written) error = errno;
  return is_written && error == 0 ? ok_status() : Status(refused("write", name, error));
}

std::string title_of(const FinishedRun& run) {
  std::string title = run.plan->label();
  if (title.empty()) title = describe(run.plan->file.scenario);
  return run.plan->is_one_of_several_seeds ? cat(title, ", seed ", run.plan->file.scenario.seed)
                                           : title;
}

}  // namespace

Result<std::string> read_file(const std::string& name) {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "r"),
                                                             &std::fclose);
  if (file == nullptr) return refused("read", name, errno);
  std::string text;
  std::array<char, 4096> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), file.get()))
    text.append(part.data(), count);
  if (std::ferror(file.get()) != 0) return refused("read", name, errno);
  return text;
}

Status write_series(const std::string& prefix, const sim::Results& results) {
  const Status flows = write_file(prefix + "-flows.csv", flow_series_csv(results));
  return flows.ok() ? write_file(prefix + "-ports.csv", port_series_csv(results)) : flows;
}

Status write_plots(const std::string& folder, bool with_png, std::span<const FinishedRun> runs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return refused("make the folder", folder, error.value());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (Plot& plot : plots_of(runs[i].plan->file.scenario, runs[i].results)) {
      if (!plot.missing.empty()) {
        if (i == 0) absl::FPrintF(stderr, "%s: %s\n", plot.title, plot.missing);
        continue;
      }
      const std::string number = runs.size() == 1 ? "" : absl::StrFormat("%03d-", i + 1);
      const std::string name = cat(folder, "/", number, plot.name);
      Status status = write_file(name + ".svg", draw(std::move(plot)));
      if (status.ok() && with_png) status = convert_to_png(name + ".svg", name + ".png");
      if (!status.ok()) return status;
    }
  }
  return ok_status();
}

Status write_html(const std::string& name, std::span<const FinishedRun> runs) {
  std::vector<ReportedRun> reported;
  for (const FinishedRun& run : runs)
    reported.push_back(
        {.title = title_of(run), .scenario = run.plan->file.scenario, .results = run.results});
  const std::string& title = runs.front().plan->file.title;
  return write_file(name, html_report(title.empty() ? "Simulated runs" : title, reported));
}

}  // namespace spindrift::simtool
