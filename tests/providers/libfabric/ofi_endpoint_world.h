#pragma once
// Endpoints over providers of libfabric, for the endpoint contract suites; through the module.
#include "tests/contract/endpoint_world.h"

namespace spindrift {

// `provider` as libfabric calls it.
WorldFactory ofi_world(const char* provider);

}  // namespace spindrift
