#pragma once
// What the user sees of a measurement: tables as perftest prints them, or one JSON document.
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/endpoint.h"

#include "tools/perf/account.h"
#include "tools/perf/options.h"
#include "tools/perf/statistics.h"

namespace spindrift::perf {

std::string format_header(const PerfOptions& options, const ConnInfo& connection, bool is_latency);
std::string format_bandwidth_row(const BandwidthSummary& row, std::uint64_t message_bytes);
std::string format_latency_row(const LatencySummary& row, std::uint64_t message_bytes);

// Collects the results of a client; prints tables as they come, the JSON document at the end.
class Report {
 public:
  explicit Report(const PerfOptions& options) : options_(options) {}
  void set_connection(const ConnInfo& info);
  void begin_test(bool is_latency);
  void add(std::uint64_t message_bytes, const BandwidthSummary& row);
  void add(std::uint64_t message_bytes, const LatencySummary& row);
  void set_accounts(const Account& client, const Account& server);
  void set_interrupted() { is_interrupted_ = true; }
  bool is_interrupted() const { return is_interrupted_; }

  // A sentence for each limit that was missed, saying by how much.
  std::vector<std::string> misses() const;
  // The JSON document, if that is what the user wants. `error` is empty when all went well.
  void finish(std::string_view error);

 private:
  nlohmann::json parameters() const;

  const PerfOptions& options_;
  ConnInfo connection_{};
  nlohmann::json bandwidth_rows_ = nlohmann::json::array();
  nlohmann::json latency_rows_ = nlohmann::json::array();
  nlohmann::json accounts_ = nlohmann::json::object();
  double best_mb_per_s_ = -1;
  double best_latency_us_ = -1;
  bool is_interrupted_ = false;
};

}  // namespace spindrift::perf
