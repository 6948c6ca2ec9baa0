#include "tools/perf/report.h"

#include <algorithm>
#include <cstdio>

#include "spindrift/version.h"

#include "absl/strings/str_format.h"
#include "tools/perf/latency.h"
#include "tools/perf/units.h"

namespace spindrift::perf {
namespace {

constexpr std::string_view kRule =
    "--------------------------------------------------------------------------------------------"
    "-------------------\n";

std::string_view title_of(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
      return "Write";
    case Operation::kWriteImm:
      return "Write with immediate";
    case Operation::kSend:
      return "Send";
    case Operation::kRead:
      return "Read";
    case Operation::kAtomic:
      return "Atomic FETCH_ADD";
  }
  return "Unknown";
}

std::string describe_extent(const PerfOptions& options, bool is_latency) {
  const RunRequest run = make_run(options, options.shape.sizes.front(), is_latency);
  if (run.iterations != 0) return absl::StrFormat("%u iterations", run.iterations);
  return absl::StrFormat("%g s", static_cast<double>(run.duration.count()) / 1e9);
}

nlohmann::json connection_json(const ConnInfo& info) {
  return {{"local_address", info.local_address},
          {"remote_address", info.remote_address},
          {"payload_mtu", info.payload_mtu},
          {"paths", info.path_count},
          {"has_crc", info.has_crc},
          {"congestion_control", info.congestion_control},
          {"path_selector", info.path_selector},
          {"loss_rule", info.loss_rule}};
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string format_header(const PerfOptions& options, const ConnInfo& connection, bool is_latency) {
  const TestShape& shape = options.shape;
  std::string out(kRule);
  absl::StrAppendFormat(
      &out, "                    Spindrift %s %s%s Test\n", title_of(shape.operation),
      !is_latency && shape.is_bidirectional ? "Bidirectional " : "", is_latency ? "Latency" : "BW");
  absl::StrAppendFormat(&out, " Local address     : %s\n Remote address    : %s\n",
                        connection.local_address, connection.remote_address);
  absl::StrAppendFormat(&out, " Connections       : %-12u Paths per conn.   : %u\n",
                        is_latency ? 1 : shape.connections, connection.path_count);
  const std::string depth = is_latency         ? "1"
                            : shape.depth == 0 ? "by size"
                                               : absl::StrFormat("%u", shape.depth);
  absl::StrAppendFormat(&out, " Depth             : %-12s Payload MTU       : %u[B]\n", depth,
                        connection.payload_mtu);
  absl::StrAppendFormat(&out, " Each measurement  : %-12s Verification      : %s\n",
                        describe_extent(options, is_latency), shape.has_verify ? "ON" : "OFF");
  absl::StrAppendFormat(&out, " Congestion control: %-12s Path selector     : %s\n",
                        connection.congestion_control, connection.path_selector);
  absl::StrAppendFormat(&out, " CRC-32C           : %-12s Loss rule         : %s\n",
                        connection.has_crc ? "ON" : "OFF", connection.loss_rule);
  if (!options.faults.empty()) {
    absl::StrAppendFormat(&out, " Faults on purpose : %s\n", options.faults);
  }
  if (is_latency) {
    absl::StrAppendFormat(&out, " Latency           : %s\n",
                          is_ping_pong(shape.operation) ? "half of each round trip (ping-pong)"
                                                        : "from post to completion");
  }
  out += kRule;
  out += is_latency
             ? " #bytes     #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "
               "t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n"
             : " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
  return out;
}

std::string format_bandwidth_row(const BandwidthSummary& row, std::uint64_t message_bytes) {
  return absl::StrFormat(" %-10u %-14u %-18.2f %-20.2f %-.6f\n", message_bytes, row.iterations,
                         row.peak_mb_per_s, row.average_mb_per_s, row.rate_mpps);
}

std::string format_latency_row(const LatencySummary& row, std::uint64_t message_bytes) {
  return absl::StrFormat(" %-10u %-14u %-14.2f %-12.2f %-18.2f %-14.2f %-15.2f %-22.2f %-.2f\n",
                         message_bytes, row.samples, row.min_us, row.max_us, row.typical_us,
                         row.average_us, row.stdev_us, row.p99_us, row.p999_us);
}

void Report::set_connection(const ConnInfo& info) {
  connection_ = info;
}

void Report::begin_test(bool is_latency) {
  if (!options_.has_json) print(format_header(options_, connection_, is_latency));
}

void Report::add(std::uint64_t message_bytes, const BandwidthSummary& row) {
  best_mb_per_s_ = std::max(best_mb_per_s_, row.average_mb_per_s);
  nlohmann::json entry = to_json(row);
  entry["message_bytes"] = message_bytes;
  bandwidth_rows_.push_back(std::move(entry));
  if (!options_.has_json) print(format_bandwidth_row(row, message_bytes));
}

void Report::add(std::uint64_t message_bytes, const LatencySummary& row) {
  if (row.samples > 0 && (best_latency_us_ < 0 || row.average_us < best_latency_us_)) {
    best_latency_us_ = row.average_us;
  }
  latency_rows_.push_back({{"message_bytes", message_bytes},
                           {"iterations", row.samples},
                           {"min_us", row.min_us},
                           {"max_us", row.max_us},
                           {"typical_us", row.typical_us},
                           {"average_us", row.average_us},
                           {"stdev_us", row.stdev_us},
                           {"p99_us", row.p99_us},
                           {"p999_us", row.p999_us}});
  if (!options_.has_json) print(format_latency_row(row, message_bytes));
}

void Report::set_accounts(const Account& client, const Account& server) {
  accounts_ = {{"client", to_json(client)}, {"server", to_json(server)}};
  if (options_.has_json) return;
  print(std::string(kRule) + format_account("Account of the client's transport", client) +
        format_account("Account of the server's transport", server) + std::string(kRule));
}

std::vector<std::string> Report::misses() const {
  std::vector<std::string> out;
  if (options_.min_mb_per_s && best_mb_per_s_ < *options_.min_mb_per_s) {
    const double reached = std::max(best_mb_per_s_, 0.0);
    out.push_back(
        absl::StrFormat("bandwidth of %.2f MB/s misses --min-bw %.2f MB/s by %.2f MB/s (%.1f %%)",
                        reached, *options_.min_mb_per_s, *options_.min_mb_per_s - reached,
                        100 * (1 - reached / *options_.min_mb_per_s)));
  }
  if (options_.max_latency_us && best_latency_us_ < 0) {
    out.push_back("no latency was measured, so --max-lat is missed");
  } else if (options_.max_latency_us && best_latency_us_ > *options_.max_latency_us) {
    out.push_back(absl::StrFormat("latency of %.2f usec misses --max-lat %.2f usec by %.2f usec",
                                  best_latency_us_, *options_.max_latency_us,
                                  best_latency_us_ - *options_.max_latency_us));
  }
  return out;
}

nlohmann::json Report::parameters() const {
  const TestShape& shape = options_.shape;
  nlohmann::json out = {{"operation", to_string(shape.operation)},
                        {"sizes", shape.sizes},
                        {"connections", shape.connections},
                        {"is_bidirectional", shape.is_bidirectional},
                        {"has_verify", shape.has_verify},
                        {"burst_bytes", options_.transport.burst_bytes},
                        {"dscp", options_.transport.dscp},
                        {"crc", to_string(options_.transport.crc)},
                        {"fault", options_.faults},
                        {"rails", options_.rails},
                        {"has_guardian", options_.has_guardian}};
  if (shape.depth != 0) out["depth"] = shape.depth;
  for (const bool is_latency : {false, true}) {
    if (is_latency ? !options_.has_latency : !options_.has_bandwidth) continue;
    const RunRequest run = make_run(options_, shape.sizes.front(), is_latency);
    out[is_latency ? "latency" : "bandwidth"] = {
        {"iterations", run.iterations},
        {"duration_s", static_cast<double>(run.duration.count()) / 1e9}};
  }
  return out;
}

void Report::finish(std::string_view error) {
  if (!options_.has_json) return;
  nlohmann::json document = {{"tool", "spindrift perf"},
                             {"version", kVersion},
                             {"parameters", parameters()},
                             {"connection", connection_json(connection_)},
                             {"bandwidth", bandwidth_rows_},
                             {"latency", latency_rows_},
                             {"account", accounts_},
                             {"is_interrupted", is_interrupted_},
                             {"misses", misses()}};
  if (!error.empty()) document["error"] = error;
  print(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace spindrift::perf
