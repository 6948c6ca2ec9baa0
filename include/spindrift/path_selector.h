#pragma once
// Which path (entropy value) each burst takes. A policy sees outcomes, never packets or time.
// Whether a path may be used at all (BAD, DENIED) is decided outside, by
// transport/paths/path_table.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "spindrift/stats.h"
#include "spindrift/types.h"

namespace spindrift {

enum class PathOutcome : std::uint8_t {
  kDelivered,
  kMarked,   // arrived with ECN CE
  kTrimmed,  // a switch cut the payload
  kLost,     // judged lost
};

struct PathFeedback {
  PathId path{};
  PathOutcome outcome = PathOutcome::kDelivered;
  std::uint32_t packets = 0;
  Duration rtt{};  // zero: no sample
};

class PathSelector {
 public:
  virtual ~PathSelector() = default;
  // Chooses a path for each of the next out.size() bursts, in send order.
  virtual void pick(std::span<PathId> out) = 0;
  virtual void on_feedback(std::span<const PathFeedback> feedback) = 0;
  virtual void describe(StateWriter& out) const = 0;
};

struct PathSelectorInfo {
  std::string_view name;
  std::string_view summary;
  // `path_count` is 1..kMaxPaths.
  std::unique_ptr<PathSelector> (*make)(std::uint32_t path_count, std::uint64_t seed) = nullptr;
  // As in CcInfo.
  std::unique_ptr<PathSelector> (*make_from)(const void* origin, std::uint32_t path_count,
                                             std::uint64_t seed) = nullptr;
  const void* origin = nullptr;

  std::unique_ptr<PathSelector> create(std::uint32_t path_count, std::uint64_t seed) const {
    return make_from != nullptr ? make_from(origin, path_count, seed) : make(path_count, seed);
  }
};

}  // namespace spindrift
