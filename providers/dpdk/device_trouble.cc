#include "providers/dpdk/device_trouble.h"

#include <filesystem>
#include <system_error>

#include <unistd.h>

#include "providers/dpdk/eal.h"

namespace spindrift {
namespace {

PciState look_at(std::string_view device) {
  std::string name(device);
  if (name.find(':') == name.rfind(':')) name = "0000:" + name;
  const std::filesystem::path folder = "/sys/bus/pci/devices/" + name;
  PciState state;
  std::error_code error;
  state.exists = std::filesystem::exists(folder, error);
  const auto driver = std::filesystem::read_symlink(folder / "driver", error);
  if (!error) state.driver = driver.filename().string();
  error.clear();
  const auto group = std::filesystem::read_symlink(folder / "iommu_group", error);
  state.has_iommu_group = !error;
  const std::string node = "/dev/vfio/" + group.filename().string();
  state.can_open_group = error || ::access(node.c_str(), R_OK | W_OK) == 0;
  return state;
}

std::string explain_virtual(const DeviceOptions& options, const std::string& said) {
  const std::string& device = options.device;
  const bool is_client = options.arguments.find("role=client") != std::string::npos;
  if (device.starts_with("net_memif") && is_client)
    return "its server must be there first: start the side with role=server, and give both the "
           "same socket=";
  if (device.starts_with("net_virtio_user"))
    return "the side with net_vhost must be there first, its iface= the same file as path= here";
  // Its number is made of those of the process and the interface.
  if (said.find("PACKET_FANOUT") != std::string::npos)
    return "a socket of another process happens to have the same number as this one's would; start "
           "this program again";
  if (said.find("ermission") != std::string::npos ||
      said.find("not permitted") != std::string::npos)
    return "it needs rights this process lacks: root, or CAP_NET_RAW (af_packet) or CAP_NET_ADMIN, "
           "CAP_BPF and CAP_NET_RAW (af_xdp, tap)";
  if (said.find("will not fit in mbuf") != std::string::npos)
    return "raise mtu= to the device's framesz";
  return "check its name and its args= (DPDK's guide of network drivers has them)";
}

}  // namespace

bool is_in_software(std::string_view driver) {
  for (const std::string_view one : {"net_memif", "net_vhost", "net_virtio_user", "net_af_packet",
                                     "net_af_xdp", "net_tap", "net_ring", "net_null", "net_pcap"})
    if (driver == one) return true;
  return false;
}

std::string explain_pci(std::string_view device, const PciState& state) {
  const std::string name(device);
  if (!state.exists)
    return "there is no PCI device of that address; `dpdk-devbind.py --status` lists those there "
           "are";
  if (!state.has_iommu_group)
    return "this host's IOMMU is off, without which a device may not be given to a program: boot "
           "with intel_iommu=on (or amd_iommu=on) and enable VT-d in the firmware";
  if (state.driver.empty())
    return "no kernel driver holds it: `modprobe vfio-pci && dpdk-devbind.py -b vfio-pci " + name +
           "`";
  if (state.driver == "mlx5_core" || state.driver == "mlx4_core")
    return "it stays with the kernel's driver " + state.driver +
           ", and DPDK needs rdma-core's library beside it (libibverbs1, ibverbs-providers)";
  if (state.driver != "vfio-pci" && state.driver != "uio_pci_generic" && state.driver != "igb_uio")
    return "the kernel's driver " + state.driver +
           " holds it: take its interface down, then `dpdk-devbind.py -b vfio-pci " + name + "`";
  if (!state.can_open_group)
    return "this user may not open its group in /dev/vfio: run as root, or give the user the file";
  return "DPDK may have no driver for it; `dpdk-devbind.py --status` names the device";
}

std::string explain_device_trouble(const DeviceOptions& options, const std::string& step,
                                   int code) {
  const std::string said = eal_said();
  std::string sentence = "dpdk device " + options.device + " " + step;
  if (code < 0) sentence += " (" + std::generic_category().message(-code) + ")";
  sentence +=
      ": " + (is_pci_address(options.device) ? explain_pci(options.device, look_at(options.device))
                                             : explain_virtual(options, said));
  if (!said.empty()) sentence += ". DPDK said: " + said;
  return sentence;
}

}  // namespace spindrift
