#pragma once
// The rails of this host that the plugin offers to NCCL: its Ethernet interfaces, in PCI order, and
// the devices that NCCL has merged from them.
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
  std::vector<NetAddress> rails;  // one, or of all that were merged; without ports
  std::vector<int> parts;         // indices of the devices behind it: itself, or the merged ones
};

// What the environment says about which interfaces to use. Lists are NameFilter's.
struct DeviceChoice {
  std::string interfaces{};  // SPINDRIFT_NCCL_IFNAME, else NCCL_SOCKET_IFNAME
  std::string adapters{};    // NCCL_IB_HCA: interfaces that belong to these
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
