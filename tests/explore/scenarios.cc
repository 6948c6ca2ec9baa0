#include <algorithm>

#include "tests/explore/explorer.h"

namespace spindrift::test {
namespace {

WorldConfig asks_for_cookies(std::uint32_t half_open) {
  WorldConfig config = small_world();
  config.endpoint.half_open_before_cookie = half_open;
  return config;
}

WorldConfig keeps_alive() {
  WorldConfig config = small_world();
  config.endpoint.has_guardian = true;  // both sides progress alone: keepalives run
  return config;
}

std::vector<Scenario> of_opening() {
  using enum Step;
  return {
      {.name = "open",
       .about = "a connection opens and is used at once",
       .config = small_world(),
       .scripts = {{{kConnect, kWrite}, {kReceive}}},
       .waits = 4},
      {.name = "cookie",
       .about = "strangers must return a cookie, always",
       .config = asks_for_cookies(0),
       .scripts = {{{kConnect}, {}}},
       .repeats = 2,
       .waits = 4},
      {.name = "flood",
       .about = "a cookie is asked for while another host floods, and no more when it stops",
       .config = asks_for_cookies(1),
       .prelude = {kFlood},
       .scripts = {{{kConnect}, {kRejectFlood}}},
       .repeats = 2},
  };
}

std::vector<Scenario> of_work() {
  using enum Step;
  return {
      {.name = "send_receive",
       .about = "a SEND and its RECEIVE, posted in any order, and a farewell",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kSend, kClose}, {kReceive}}}},
      {.name = "farewell",
       .about = "one side closes; what is late or lost of its farewell",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kClose}, {kWrite}}},
       .drops = 2,
       .repeats = 2},
      {.name = "both_ways",
       .about = "both sides work on each other and both close",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kWrite, kClose}, {kRead, kClose}}}},
      {.name = "atomics",
       .about = "atomics execute once",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kAdd, kAdd, kAdd}, {}}},
       .drops = 2,
       .repeats = 2},
      {.name = "deadline",
       .about = "a WRITE with a deadline among others",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kWriteWithDeadline, kWrite}, {}}},
       .waits = 5},
      {.name = "abort",
       .about = "one side aborts while the other works",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kSend, kRead}, {kReceive, kAbort}}}},
      {.name = "restart",
       .about = "the target's process starts again while the initiator opens and works",
       .config = small_world(),
       .scripts = {{{kConnect, kWrite}, {kForget}}},
       .waits = 4},
      {.name = "reconnect",
       .about = "the initiator's process starts again and connects anew",
       .config = small_world(),
       .prelude = {kOpen},
       .scripts = {{{kForget, kConnect, kWrite}, {kWrite}}},
       .waits = 4},
      {.name = "keepalive",
       .about = "both sides progress alone, work, and one ends",
       .config = keeps_alive(),
       .prelude = {kOpen},
       .scripts = {{{kWrite}, {kForget}}},
       .waits = 5},
  };
}

}  // namespace

const std::vector<Scenario>& all_scenarios() {
  static const std::vector<Scenario> scenarios = [] {
    std::vector<Scenario> all = of_opening();
    const std::vector<Scenario> more = of_work();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return scenarios;
}

const Scenario* find_scenario(std::string_view name) {
  const auto& all = all_scenarios();
  const auto found = std::find_if(
      all.begin(), all.end(), [name](const Scenario& scenario) { return scenario.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace spindrift::test
