#pragma once
// Recorded decisions of congestion control (SPINDRIFT_CC_RECORD), fed into an algorithm again: the
// same one must decide the same, another one shows where it would have differed.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/registry.h"
#include "spindrift/result.h"

namespace spindrift::simtool {

struct RecordedSignal {
  Time now{};
  Signal signal{};
};
struct RecordedEvent {
  std::variant<AckEvent, LossEvent, RecordedSignal> event{};
  SendLimits limits{};  // what was decided
};
// One connection.
struct Recording {
  std::string spec{};  // the algorithm with every parameter, as Registry takes it
  std::string algorithm{};
  FlowInfo flow{};
  SendLimits initial{};
  std::uint64_t left_out = 0;   // events that did not fit in the record's memory
  std::uint64_t announced = 0;  // events that its first line says follow
  std::vector<RecordedEvent> events{};
};
// `name` is what messages call the text.
Result<std::vector<Recording>> parse_recordings(std::string_view text, std::string_view name);

struct Replay {
  std::vector<SendLimits> decisions{};  // one per event
  std::size_t equal = 0;
  bool starts_equal = false;
  std::optional<std::size_t> first_difference{};
};
// `spec` empty: the algorithm that was recorded, with its parameters.
Result<Replay> replay(const Recording& recording, const Registry& registry,
                      const std::string& spec);

// A line per connection; where the first one differed, both decisions.
std::string replay_text(const std::vector<Recording>& recordings,
                        const std::vector<Replay>& replays);
// now_ns, and window, credit, rate and timer as recorded and as replayed.
std::string replay_csv(const std::vector<Recording>& recordings,
                       const std::vector<Replay>& replays);

}  // namespace spindrift::simtool
