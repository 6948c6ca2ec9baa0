#pragma once
// One rail of a libfabric fabric: a domain with its endpoints. A single one, or one per name in
// `domain=`. Internal to providers/libfabric.
#include <cstdint>
#include <memory>
#include <vector>

#include "providers/libfabric/ofi_device.h"
#include "providers/libfabric/ofi_options.h"

namespace spindrift {

struct OfiRail {
  std::unique_ptr<OfiDevice> device{};
  std::size_t receives_posted = 0;
};

using OfiRails = std::vector<OfiRail>;

}  // namespace spindrift
