#pragma once
// The client of `spindrift perf`: connects, describes the test, runs it size by size, reports.
#include <functional>
#include <memory>
#include <string>

#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/session.h"

namespace spindrift::perf {

class Client {
 public:
  // `server_death` says how a server that this process started has died; empty while it lives or
  // where there is none.
  Client(const PerfOptions& options, std::function<std::string()> server_death);
  // The exit code. Everything has been printed.
  int run();

 private:
  [[nodiscard]] Status measure();
  [[nodiscard]] Status open_session();
  [[nodiscard]] Status connect_control();
  [[nodiscard]] Status connect_data(std::uint64_t session_number);
  [[nodiscard]] Status await_established(std::uint32_t wanted);
  [[nodiscard]] Status run_tests();
  [[nodiscard]] Status run_bandwidth(std::uint64_t message_bytes);
  [[nodiscard]] Status run_latency(std::uint64_t message_bytes);
  [[nodiscard]] Status begin(const RunRequest& run);
  [[nodiscard]] Status finish_session();
  void give_up_when_stuck();
  void show_progress(std::uint64_t message_bytes, const BandwidthMeter& meter);
  void clear_progress();

  const PerfOptions& options_;
  std::function<std::string()> server_death_;
  Report report_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Session> session_;
  std::uint32_t established_ = 0;
  std::uint64_t runs_ = 0;
  std::uint32_t progress_turns_ = 0;
  Time last_progress_{};
  Time interrupted_at_{};
  bool has_begun_ = false;  // connected, and about to measure
  bool has_terminal_ = false;
  bool has_progress_line_ = false;
};

}  // namespace spindrift::perf
