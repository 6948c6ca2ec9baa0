#pragma once
// Tries all interleavings of events between two engines, breadth first, so that a failure comes
// with the shortest list of actions that repeats it. Engines cannot be copied: every state is
// reached by replaying its actions from the beginning. States that look alike (abstract_state) are
// visited once. In every state a fair continuation is run: nothing may be stuck, lost or done
// twice.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/explore/engine_world.h"

namespace spindrift::test {

// What an application, or the world around, does next.
enum class Step : std::uint8_t {
  kConnect,
  kOpen,  // only in a prelude: connect, accept, deliver, until both sides are open
  kSend,
  kWrite,
  kWriteWithDeadline,
  kRead,
  kAdd,
  kReceive,
  kClose,
  kAbort,
  kForget,
  kFlood,
  kRejectFlood,
};

struct Scenario {
  std::string_view name;
  std::string_view about;
  WorldConfig config{};
  std::vector<Step> prelude{};                 // done first, once; B's steps
  std::array<std::vector<Step>, 2> scripts{};  // of A and B: in this order, at any moment
  std::uint8_t drops = 1;                      // packets the network may lose
  std::uint8_t repeats = 1;                    // ... and deliver twice
  std::uint8_t waits = 3;                      // how often time may pass to the next timer
};
const std::vector<Scenario>& all_scenarios();
const Scenario* find_scenario(std::string_view name);

struct Action {
  enum class Kind : std::uint8_t { kDeliver, kDrop, kRepeat, kWait, kAccept, kStep };
  Kind kind = Kind::kDeliver;
  Side side = Side::kA;
  std::uint8_t index = 0;  // of the packet
  bool operator==(const Action&) const = default;
};
// "deliver-A0 drop-B1 repeat-B0 wait accept step-A", separated by blanks.
std::string to_string(const std::vector<Action>& actions);
bool parse_actions(std::string_view text, std::vector<Action>& out);

struct Exploration {
  std::uint64_t states = 0;
  std::uint64_t replays = 0;
  std::size_t depth = 0;          // of the deepest state
  bool is_complete = false;       // nothing was left to try
  std::string failure{};          // empty: every rule held
  std::vector<Action> actions{};  // that lead to it
};
// At most `max_replays`.
Exploration explore(const Scenario& scenario, std::uint64_t max_replays);
// The failure that these actions lead to, with the fair continuation after them; empty: none.
std::string replay(const Scenario& scenario, const std::vector<Action>& actions);

// What of a world matters for what can still happen: phases, queues, logs, packets under way, which
// timers run and roughly for how long. Hashed.
std::uint64_t abstract_state(EngineWorld& world);

}  // namespace spindrift::test
