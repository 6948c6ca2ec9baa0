// What libspindrift-dpdk.so exports.
#include <memory>

#include "providers/dpdk/device_options.h"
#include "providers/dpdk/dpdk_io.h"
#include "providers/dpdk/eal.h"
#include "providers/module/export_module.h"

namespace spindrift {
namespace {

// DPDK itself is there, or this module would not have been loaded; whether a device works shows
// when it is opened.
Status probe() {
  if (is_eal_usable()) return ok_status();
  return Error(ErrorCode::kUnsupported, "this process was forked after DPDK had started");
}

// Every address of the devices is a rail.
Status add_rails(PacketIo& io, const std::vector<DeviceOptions>& devices) {
  for (const DeviceOptions& device : devices)
    for (const LocalNet& net : device.nets) {
      NetAddress address = net.address;
      address.port = static_cast<std::uint16_t>(device.port);
      const auto rail = io.add_rail(address);
      if (!rail.ok()) return rail.error();
    }
  return ok_status();
}

Result<std::unique_ptr<PacketIo>> open(const Url& url) {
  const auto devices = parse_device_options(url);
  if (!devices.ok()) return devices.error();
  auto io = open_dpdk(devices.value());
  if (!io.ok()) return io.error();
  const Status rails = add_rails(*io.value(), devices.value());
  if (!rails.ok()) return rails.error();
  return io;
}

constexpr ProviderInfo kDpdk{.name = "dpdk", .summary = {}, .open = open, .probe = probe};

}  // namespace
}  // namespace spindrift

extern "C" __attribute__((visibility("default"))) const spindrift::ProviderModule*
spindrift_provider_module() {
  return spindrift::exported_module<spindrift::kDpdk>();
}
