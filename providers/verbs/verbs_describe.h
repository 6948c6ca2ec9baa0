#pragma once
// What `spindrift info` says about RDMA devices: state, link, MTU, the GID table with what speaks
// for and against each entry, and how many paths lanes have. Internal to providers/verbs.
#include <string>
#include <vector>

#include "spindrift/result.h"

#include "providers/verbs/verbs_options.h"
#include "providers/verbs/verbs_port.h"

namespace spindrift {

struct VerbsFact {
  std::string device;  // "mlx5_0 port 1"
  std::string name;
  std::string value;
};

// The devices that the options name; all that they let, where they name none.
Result<std::vector<VerbsFact>> describe_verbs(const VerbsOptions& options);

// How many ways through the network the queue pairs of a connection have, and why.
std::string describe_paths(VerbsTransport transport, bool is_infiniband, std::uint32_t lanes);

}  // namespace spindrift
