#pragma once
// Why a device is not usable, and what to do about it: looks at what the host knows of it. Internal
// to providers/dpdk.
#include <string>
#include <string_view>

#include "providers/dpdk/device_options.h"

namespace spindrift {

// A sentence for "`device` `step`", where DPDK returned `code`.
std::string explain_device_trouble(const DeviceOptions& options, const std::string& step, int code);

// What stands below /sys/bus/pci/devices/ADDRESS and in /dev/vfio; pure once it is read.
struct PciState {
  bool exists = false;
  std::string driver;  // the kernel's; empty: none
  bool has_iommu_group = false;
  bool can_open_group = true;  // /dev/vfio/GROUP, when there is one
};
std::string explain_pci(std::string_view device, const PciState& state);

// Links within or between processes, without a rate of their own.
bool is_in_software(std::string_view driver);

}  // namespace spindrift
