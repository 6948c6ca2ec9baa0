#pragma once
// Lists of names as NCCL_SOCKET_IFNAME and NCCL_IB_HCA write them: "eth0,eth1" are prefixes,
// "=eth0" whole names, and a leading '^' turns the list round. "mlx5_0:1" is one port of a device.
#include <string>
#include <string_view>
#include <vector>

namespace spindrift::nccl {

class NameFilter {
 public:
  // "^=eth0,eth1"; empty lets everything pass.
  explicit NameFilter(std::string_view list);
  bool is_set() const { return !names_.empty(); }
  bool excludes() const { return excludes_; }
  // Without a port, the ports that are listed do not count.
  static constexpr int kAnyPort = -1;
  bool passes(std::string_view name, int port = kAnyPort) const;

 private:
  struct Listed {
    std::string name;
    int port = kAnyPort;
  };
  std::vector<Listed> names_;
  bool excludes_ = false;
  bool is_exact_ = false;
};

}  // namespace spindrift::nccl
