#pragma once
// What launchers leave in the environment, read as one struct. Pure: the environment is passed in.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/bootstrap.h"

#include "collectives/bootstrap/unique_id.h"

namespace spindrift::collectives {

// The value of a variable, or nothing.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// How rank 0's address reaches the others.
enum class MeetingWay : std::uint8_t {
  kKnown,  // `meeting` says it
  kFile,   // in `file`
  kPmi1,   // published through descriptor `pmi_fd`
  kPmix,   // through the PMIx server
};

struct DetectedLaunch {
  Launch launch;
  MeetingWay way = MeetingWay::kKnown;
  Meeting meeting{};
  std::string file{};
  int pmi_fd = -1;
};

// Nothing where no launcher is seen.
Result<std::optional<DetectedLaunch>> detect_launch(const Environment& environment);

// "host:port" or "file:///path".
Status set_rendezvous(const std::string& rendezvous, DetectedLaunch& detected);

// The first host of a list as Slurm writes it: "node[08-11,13]" has "node08".
Result<std::string> first_host(const std::string& node_list);

}  // namespace spindrift::collectives
