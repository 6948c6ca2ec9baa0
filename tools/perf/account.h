#pragma once
// The transport's own account of a test: its counters, the state of its flow, its paths.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/counter_snapshot.h"
#include "spindrift/endpoint.h"

namespace spindrift::perf {

struct PathAccount {
  std::string state;  // the worst of the connections': of "bad" and "good", "bad"
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t marked = 0;
  double rtt_us = 0;  // mean over the connections that have one
};

struct Account {
  CounterSnapshot counters{};                           // sums over the connections
  std::vector<std::pair<std::string, double>> state{};  // of the first connection
  std::vector<PathAccount> paths{};                     // sums over the connections
};

Account collect_account(const Endpoint& endpoint, std::span<const ConnId> connections);

nlohmann::json to_json(const Account& account);
// Takes what is well-formed and leaves out the rest.
Account parse_account(const nlohmann::json& object);

// Lines for people: counters that are not zero, the flow's state, a table of paths.
std::string format_account(std::string_view title, const Account& account);

}  // namespace spindrift::perf
