#pragma once
// The rails of this host that the plugin offers to NCCL, in PCI order: RDMA devices, Ethernet
// interfaces, what the user names, and the devices that NCCL has merged from interfaces.
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

struct Device {
  std::string name;      // unique: NCCL keys its topology by it
  std::string pci_path;  // absolute, in /sys; empty: on no PCI bus
  std::uint64_t guid = 0;
  int speed_mbps = 0;
  int port = 1;
  std::string provider = "udp";
  std::string address{};            // where its endpoints are opened; udp: on the rails
  std::vector<NetAddress> rails{};  // udp: one, or of all that were merged; without ports
  std::vector<int> parts;           // indices of the devices behind it: itself, or the merged ones
};

// What the environment says about which interfaces to use. Lists are NameFilter's.
struct DeviceChoice {
  std::string interfaces{};  // SPINDRIFT_NCCL_IFNAME, else NCCL_SOCKET_IFNAME
  std::string adapters{};    // NCCL_IB_HCA: interfaces that belong to these, and RDMA devices
  std::string own_names{};   // SPINDRIFT_NCCL_IFNAME: RDMA devices of these names, too
  std::string rails{};       // SPINDRIFT_NCCL_RAILS: addresses, and nothing else is used
  bool has_rdma = true;      // SPINDRIFT_NCCL_RDMA: RDMA devices before the interfaces on them
  std::uint8_t family = 0;   // 4 or 6: addresses of that family only; 0: 4 before 6
};

// An interface as the kernel shows it; scan_interfaces() makes these, tests their own.
struct Interface {
  std::string name;
  std::string pci_path;
  std::string mac;                    // "02:fc:00:00:00:01"
  std::vector<std::string> adapters;  // RDMA devices of the same port: "mlx5_0"
  std::vector<NetAddress> addresses;
  int speed_mbps = 0;  // 0: unknown
  int dev_port = 0;
  bool is_loopback = false;
};
std::vector<Interface> scan_interfaces();

// A port of an RDMA device as the kernel shows it.
struct Adapter {
  std::string name;  // "mlx5_0"
  std::string pci_path;
  std::uint64_t guid = 0;
  int port = 1;
  int speed_mbps = 0;  // 0: unknown
  bool is_active = false;
  bool is_efa =
      false;  // no queue pairs of the kind that verbs:// has, but libfabric's provider efa
};
std::vector<Adapter> scan_adapters(const std::string& folder = "/sys/class/infiniband");

// "/sys/devices/.../0000:17:00.0", of what has a link "device" in /sys; empty: on no PCI bus.
std::string pci_path_of(const std::string& folder);

// Active ports that pass the filters.
std::vector<Device> adapter_devices(const std::vector<Adapter>& adapters,
                                    const DeviceChoice& choice);
// What SPINDRIFT_NCCL_RAILS names, in its order: "ofi://net@10.0.0.1 verbs://mlx5_0:1".
Result<std::vector<Device>> named_devices(const DeviceChoice& choice,
                                          const std::vector<Interface>& interfaces,
                                          const std::vector<Adapter>& adapters);
// In PCI order. As with NCCL's own transports, interfaces are used where there is no RDMA device,
// or where they are named.
std::vector<Device> join_devices(std::vector<Device> of_adapters,
                                 const std::vector<Interface>& interfaces,
                                 const DeviceChoice& choice);

// As NCCL's own transports choose: all that are up and have an address; loopback and the bridges of
// containers only where they are named, or where there is nothing else.
std::vector<Device> choose_devices(const std::vector<Interface>& interfaces,
                                   const DeviceChoice& choice);

// Shared by all communicators of the process; devices are only ever added.
class DeviceTable {
 public:
  explicit DeviceTable(std::vector<Device> devices);
  int count() const;
  // Null: there is none of that number. Stays valid as long as the table.
  const Device* find(int index) const;
  // The index of a device that stripes over `parts`; asking twice gives the same one.
  Result<int> merge(const std::vector<int>& parts);

 private:
  mutable std::mutex mutex_;
  std::deque<Device> devices_;
};

}  // namespace spindrift::nccl
