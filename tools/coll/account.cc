#include "tools/coll/account.h"

#include <algorithm>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "transport/base/printable.h"

namespace spindrift::coll {
namespace {

// The fault wrapper's counters start with this.
constexpr std::string_view kFaultPrefix = "fault_";

std::string line(const std::string& label, std::uint64_t value, const std::string& comment = {}) {
  return absl::StrFormat("#   %-28s : %12d%s\n", label, value,
                         comment.empty() ? "" : "  " + comment);
}

std::string percent_of(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return {};
  return absl::StrFormat("%.2f %% of the packets",
                         100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

void Account::add(const Account& other) {
  counters.add(other.counters);
  connections += other.connections;
  paths += other.paths;
  least_share = std::min(least_share, other.least_share);
  most_share = std::max(most_share, other.most_share);
}

Account take_account(const OpenedGroup& group) {
  Account account;
  for (const Endpoint* endpoint : {group.network.get(), group.same_host.get()}) {
    CounterSnapshot counters;
    if (endpoint != nullptr) endpoint->counters(counters);
    account.counters.add(counters);
  }
  std::vector<PathReport> paths;
  std::uint64_t all = 0;
  for (const RankLink& link : group.communicator->links()) {
    if (all > 0 || !link.is_open) continue;
    paths = link.endpoint->paths(link.conn);
    for (const PathReport& path : paths)
      all += path.packets_sent;
  }
  if (all == 0) return account;
  account.connections = 1;
  for (const PathReport& path : paths) {
    const double share = static_cast<double>(path.packets_sent) / static_cast<double>(all);
    account.least_share = std::min(account.least_share, share);
    account.most_share = std::max(account.most_share, share);
    if (path.packets_sent > 0) ++account.paths;
  }
  return account;
}

std::string to_text(const Account& account) {
  return nlohmann::ordered_json{
      {"counters", nlohmann::ordered_json::parse(account.counters.to_json())},
      {"connections", account.connections},
      {"paths", account.paths},
      {"least_share", account.least_share},
      {"most_share", account.most_share}}
      .dump();
}

Result<Account> account_from_text(std::string_view text) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  const Error garbled(ErrorCode::kInvalidArgument, "a rank's account of its transport is garbled");
  if (!json.is_object() || !json.contains("counters") || !json["counters"].is_object())
    return garbled;
  Account account;
  try {
    for (const auto& [name, value] : json["counters"].items())
      account.counters.counter(name, value.get<std::uint64_t>());
    account.connections = json.value("connections", 0U);
    account.paths = json.value("paths", 0U);
    account.least_share = json.value("least_share", 1.0);
    account.most_share = json.value("most_share", 0.0);
  } catch (const nlohmann::json::exception&) {
    return garbled;
  }
  return account;
}

std::string describe(const Account& account, std::uint32_t ranks) {
  const std::uint64_t packets = account.counters.value("packets_sent");
  std::string text = absl::StrFormat("# Transport, summed over %d ranks\n", ranks);
  text += line("data packets sent", packets);
  std::uint64_t resent = 0;
  for (const char* cause : {"reordered", "trimmed", "timeout", "not_ready"}) {
    resent += account.counters.value(std::string("retransmits_") + cause);
  }
  text += line("retransmitted", resent, percent_of(resent, packets));
  text += line("  overtaken on their path", account.counters.value("retransmits_reordered"));
  text += line("  trimmed by a switch", account.counters.value("retransmits_trimmed"));
  text += line("  after a timeout", account.counters.value("retransmits_timeout"));
  text += line("  receiver not ready", account.counters.value("retransmits_not_ready"));
  text += line("  in vain (had arrived)", account.counters.value("spurious_retransmits"));
  text += line("marked by congestion (ECN)", account.counters.value("marked_received"));
  for (const auto& entry : account.counters.entries()) {
    if (!entry.first.starts_with(kFaultPrefix) || entry.second == 0) continue;
    std::string label = printable(entry.first.substr(kFaultPrefix.size()));
    std::replace(label.begin(), label.end(), '_', ' ');
    text += line(label + " on purpose", entry.second);
  }
  if (account.connections == 0) return text;
  absl::StrAppendFormat(&text,
                        "#   %-28s : %12.1f  each carried %.2f %% to %.2f %% of its connection's "
                        "packets\n",
                        "paths used per connection",
                        static_cast<double>(account.paths) / account.connections,
                        100 * account.least_share, 100 * account.most_share);
  return text;
}

}  // namespace spindrift::coll
