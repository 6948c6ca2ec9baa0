#pragma once
// A queue pair across its failures. Internal to providers/verbs.
//
//   kUp --a request fails, the port goes down, the peer says so--> kEnding
//   kEnding --everything that was under way has come back--> kDown
//   kDown --the side that called: RENEW; the other: RENEW comes--> kTrying
//   kTrying --bytes have moved over the new queue pair--> kUp
#include <cstdint>
#include <optional>
#include <string>

#include "spindrift/types.h"

#include "providers/verbs/queue_pair.h"

namespace spindrift {

struct VerbsLane {
  enum class State : std::uint8_t { kUp, kEnding, kDown, kTrying };
  static constexpr Duration kFirstPause = std::chrono::milliseconds(10);
  static constexpr Duration kLongestPause = std::chrono::seconds(1);

  State state = State::kUp;
  std::uint8_t port = 0;         // which of ours
  std::uint32_t number = 0;      // in the table of queue pairs
  std::uint32_t generation = 0;  // how often it was made anew
  QueuePair pair{};
  std::string trouble{};              // why it is not up
  Time ending_since{};                // kEnding
  Time retry_at{};                    // kDown, where we called
  Duration pause = kFirstPause;       // before the next try
  bool is_told_down = false;          // to the engine
  std::optional<LaneCard> renewal{};  // the peer's, until ours has ended

  bool is_up() const { return state == State::kUp; }
};

}  // namespace spindrift
