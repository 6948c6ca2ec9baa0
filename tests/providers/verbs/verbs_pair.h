#pragma once
// Fabrics over the soft-RoCE devices of this host, for tests.
#include <memory>
#include <string>

#include "providers/verbs/verbs_fabric.h"

namespace spindrift {

// Ends the test program where there is no such device.
std::unique_ptr<VerbsFabric> open_verbs_device(const std::string& device, VerbsOptions options);

}  // namespace spindrift
