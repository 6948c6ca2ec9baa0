#include "tests/providers/verbs/verbs_pair.h"

#include <cstdio>
#include <cstdlib>

namespace spindrift {

std::unique_ptr<VerbsFabric> open_verbs_device(const std::string& device, VerbsOptions options) {
  options.devices = {{.device = device, .port = 1}};
  auto fabric = std::make_unique<VerbsFabric>(options);
  if (const Status opened = fabric->open(); !opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    std::abort();
  }
  return fabric;
}

}  // namespace spindrift
