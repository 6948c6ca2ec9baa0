#include "tools/perf/account.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "tools/perf/messages.h"
#include "transport/base/printable.h"

namespace spindrift::perf {
namespace {

class StateList final : public StateWriter {
 public:
  explicit StateList(std::vector<std::pair<std::string, double>>* out) : out_(out) {}
  void field(std::string_view name, double value) override {
    out_->emplace_back(std::string(name), value);
  }

 private:
  std::vector<std::pair<std::string, double>>* out_;
};

// Of all that an endpoint counts, what its provider does of its devices: the rest is the
// connections'.
class DeviceCounters final : public CounterWriter {
 public:
  explicit DeviceCounters(CounterWriter& out) : out_(out) {}
  void counter(std::string_view name, std::uint64_t value) override {
    for (const std::string_view prefix : {"tx_", "rx_", "port"})
      if (name.starts_with(prefix)) out_.counter(name, value);
  }

 private:
  CounterWriter& out_;
};

int badness(std::string_view state) {
  static constexpr std::array<std::string_view, 4> kOrder = {"good", "skip", "denied", "bad"};
  const auto at = std::find(kOrder.begin(), kOrder.end(), state);
  return at == kOrder.end() ? -1 : static_cast<int>(at - kOrder.begin());
}

void add_paths(const std::vector<PathReport>& reports, std::vector<PathAccount>* paths,
               std::vector<std::uint32_t>* rtt_samples) {
  paths->resize(std::max(paths->size(), reports.size()));
  rtt_samples->resize(paths->size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    PathAccount& path = (*paths)[i];
    const PathReport& report = reports[i];
    if (badness(report.state) > badness(path.state)) path.state = report.state;
    path.packets += report.packets_sent;
    path.bytes += report.bytes_sent;
    path.lost += report.packets_lost;
    path.marked += report.packets_marked;
    if (report.rtt == Duration{}) continue;
    ++(*rtt_samples)[i];
    path.rtt_us += static_cast<double>(report.rtt.count()) / 1000.0;
  }
}

double share_percent(const PathAccount& path, std::uint64_t total_packets) {
  if (total_packets == 0) return 0;
  return 100.0 * static_cast<double>(path.packets) / static_cast<double>(total_packets);
}

std::uint64_t total_packets(const Account& account) {
  std::uint64_t sum = 0;
  for (const PathAccount& path : account.paths)
    sum += path.packets;
  return sum;
}

// Values that may be large or small: up to three digits after the point, none where it is whole.
std::string format_value(double value) {
  std::string text = absl::StrFormat("%.3f", value);
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

Account collect_account(const Endpoint& endpoint, std::span<const ConnId> connections) {
  Account account;
  std::vector<std::uint32_t> rtt_samples;
  for (const ConnId conn : connections) {
    endpoint.counters(conn, account.counters);
    add_paths(endpoint.paths(conn), &account.paths, &rtt_samples);
  }
  DeviceCounters devices(account.counters);
  endpoint.counters(devices);
  for (std::size_t i = 0; i < account.paths.size(); ++i) {
    if (rtt_samples[i] > 0) account.paths[i].rtt_us /= rtt_samples[i];
  }
  StateList state(&account.state);
  if (!connections.empty()) endpoint.describe(connections.front(), state);
  return account;
}

nlohmann::json to_json(const Account& account) {
  const nlohmann::json counters = nlohmann::json::parse(account.counters.to_json());
  nlohmann::json state = nlohmann::json::object();
  for (const auto& [name, value] : account.state)
    state[name] = value;
  nlohmann::json paths = nlohmann::json::array();
  const std::uint64_t total = total_packets(account);
  for (const PathAccount& path : account.paths) {
    paths.push_back({{"state", path.state},
                     {"packets", path.packets},
                     {"bytes", path.bytes},
                     {"share_percent", share_percent(path, total)},
                     {"lost", path.lost},
                     {"marked", path.marked},
                     {"rtt_us", path.rtt_us}});
  }
  return {{"counters", counters}, {"state", state}, {"paths", paths}};
}

Account parse_account(const nlohmann::json& object) {
  Account account;
  const nlohmann::json empty = nlohmann::json::object();
  const auto member = [&](const char* key) -> const nlohmann::json& {
    const auto at = object.find(key);
    return at == object.end() ? empty : *at;
  };
  const nlohmann::json& counters = member("counters");
  for (auto at = counters.begin(); counters.is_object() && at != counters.end(); ++at) {
    if (at->is_number_unsigned()) {
      account.counters.counter(at.key(), at->get<std::uint64_t>());
    }
  }
  const nlohmann::json& state = member("state");
  for (auto at = state.begin(); state.is_object() && at != state.end(); ++at) {
    if (at->is_number()) account.state.emplace_back(at.key(), at->get<double>());
  }
  for (const nlohmann::json& path : member("paths")) {
    if (!path.is_object()) continue;
    const auto rtt = path.find("rtt_us");
    account.paths.push_back(
        {.state = text_or(path, "state", ""),
         .packets = number_or(path, "packets", 0),
         .bytes = number_or(path, "bytes", 0),
         .lost = number_or(path, "lost", 0),
         .marked = number_or(path, "marked", 0),
         .rtt_us = rtt != path.end() && rtt->is_number() ? rtt->get<double>() : 0.0});
  }
  return account;
}

std::string format_account(std::string_view title, const Account& account) {
  std::string out = absl::StrFormat(" %s\n", title);
  for (const auto& [name, value] : account.counters.entries()) {
    if (value != 0) absl::StrAppendFormat(&out, "   %-36s %16u\n", printable(name), value);
  }
  for (const auto& [name, value] : account.state) {
    absl::StrAppendFormat(&out, "   %-36s %16s\n", printable(name), format_value(value));
  }
  const std::uint64_t total = total_packets(account);
  if (total == 0) return out;
  absl::StrAppendFormat(&out, "   %4s %-6s %12s %8s %10s %10s %10s\n", "path", "state", "packets",
                        "share", "lost", "marked", "rtt[usec]");
  for (std::size_t i = 0; i < account.paths.size(); ++i) {
    const PathAccount& path = account.paths[i];
    absl::StrAppendFormat(&out, "   %4u %-6s %12u %7.2f%% %10u %10u %10.1f\n", i,
                          printable(path.state), path.packets, share_percent(path, total),
                          path.lost, path.marked, path.rtt_us);
  }
  return out;
}

}  // namespace spindrift::perf
