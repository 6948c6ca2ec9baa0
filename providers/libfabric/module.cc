// What libspindrift-ofi.so exports.
#include "providers/libfabric/ofi_fabric.h"
#include "providers/module/export_module.h"

namespace spindrift {
namespace {

Result<std::unique_ptr<MessageFabric>> open(const Url& url) {
  const auto options = parse_ofi_options(url);
  if (!options.ok()) return options.error();
  return open_ofi(options.value());
}

constexpr ProviderInfo kOfi{.name = "ofi", .summary = {}, .probe = probe_ofi, .open_fabric = open};

}  // namespace
}  // namespace spindrift

extern "C" __attribute__((visibility("default"))) const spindrift::ProviderModule*
spindrift_provider_module() {
  return spindrift::exported_module<spindrift::kOfi>();
}
