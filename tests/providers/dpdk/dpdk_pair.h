#pragma once
// Two DPDK devices that reach each other, as the options that open them: memory links within this
// process, the kernel's veth and tap, and the ports of a virtual machine.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/provider.h"

#include "providers/dpdk/device_options.h"

namespace spindrift::testing {

class DpdkPair {
 public:
  virtual ~DpdkPair() = default;
  // Of host 0 or 1. They have 10.77.0.HOST+1 and 10.77.1.HOST+1, fd77::HOST+1 and fd77:1::HOST+1,
  // Ethernet addresses 02:00:00:00:00:HOST+1, and know each other's.
  virtual DeviceOptions options(std::size_t host) = 0;
  // Waits until frames pass, after both have been opened.
  virtual void connect() = 0;
  // Frames under way arrive.
  virtual void settle() = 0;
};

// "memif", "memif_zero_copy", "vhost", "ring", "tap", "af_packet", "af_xdp", "e1000",
// "e1000_in_place". Host 0 must
// be opened first.
std::vector<std::string> dpdk_pair_names();
// Of "memif", "vhost" and "af_packet", and the same each time in one process.
struct DpdkPairShape {
  std::uint32_t queues = 1;
  std::uint32_t mbufs = 0;  // packets of each pool; 0: as many as usual
};
std::unique_ptr<DpdkPair> make_dpdk_pair(const std::string& name, const DpdkPairShape& shape = {});
// Empty, or what this machine lacks.
std::string reason_to_skip_dpdk_pair(const std::string& name);

NetAddress dpdk_address(std::uint8_t family, std::size_t host, std::size_t rail);

}  // namespace spindrift::testing
