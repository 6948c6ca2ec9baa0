// What libspindrift-dpdk.so exports.
#include <memory>
#include <new>

#include "spindrift/version.h"

#include "providers/dpdk/device_options.h"
#include "providers/dpdk/dpdk_io.h"
#include "providers/dpdk/eal.h"
#include "providers/module/export_packet_io.h"
#include "providers/module/provider_module.h"

namespace spindrift {
namespace {

// DPDK itself is there, or this module would not have been loaded; whether a device works shows
// when it is opened.
bool probe(const ModuleErrorSink* sink) {
  if (is_eal_usable()) return true;
  report(*sink, Error(ErrorCode::kUnsupported, "this process was forked after DPDK had started"));
  return false;
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

void* open(const char* text, std::size_t bytes, const ModuleErrorSink* sink) {
  try {
    const auto url = parse_url({text, bytes});
    if (!url.ok()) {
      report(*sink, url.error());
      return nullptr;
    }
    const auto devices = parse_device_options(url.value());
    if (!devices.ok()) {
      report(*sink, devices.error());
      return nullptr;
    }
    auto io = open_dpdk(devices.value());
    if (!io.ok()) {
      report(*sink, io.error());
      return nullptr;
    }
    const Status rails = add_rails(*io.value(), devices.value());
    if (rails.ok()) return std::move(io).value().release();
    report(*sink, rails.error());
  } catch (const std::bad_alloc&) {
    report(*sink, Error(ErrorCode::kNoMemory, "out of memory"));
  }
  return nullptr;
}

}  // namespace
}  // namespace spindrift

extern "C" __attribute__((visibility("default"))) const spindrift::ProviderModule*
spindrift_provider_module() {
  static const spindrift::ProviderModule module = [] {
    spindrift::ProviderModule out;
    out.library_version = spindrift::kVersion.data();
    out.name = "dpdk";
    out.probe = spindrift::probe;
    out.open = spindrift::open;
    out.packet_io = spindrift::packet_io_functions();
    return out;
  }();
  return &module;
}
