#pragma once
// Lists of names as NCCL_SOCKET_IFNAME and NCCL_IB_HCA write them: "eth0,eth1" are prefixes,
// "=eth0" whole names, and a leading '^' turns the list round. A port behind a colon ("mlx5_0:1")
// is cut off.
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
  bool passes(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  bool excludes_ = false;
  bool is_exact_ = false;
};

}  // namespace spindrift::nccl
