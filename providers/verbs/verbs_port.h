#pragma once
// One port of an RDMA device, opened: its context, protection domain, completion channel, and what
// can be asked of it. Internal to providers/verbs.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/result.h"
#include "spindrift/types.h"

#include "providers/verbs/gid_choice.h"
#include "providers/verbs/verbs_options.h"

namespace spindrift {

// ok, or why this process can use no RDMA device at all.
Status probe_verbs();

class VerbsPort {
 public:
  // `wanted` empty: the first active port that the options let.
  static Result<std::unique_ptr<VerbsPort>> open(const VerbsOptions& options,
                                                 const DevicePort& wanted);
  // All that the options name and let, whatever their state: to be asked, not to be used.
  struct Found {
    std::string device;
    std::unique_ptr<VerbsPort> port;  // null: the device cannot be asked
    std::string trouble{};            // ... because of that
  };
  static Result<std::vector<Found>> look(const VerbsOptions& options);
  VerbsPort(const VerbsPort&) = delete;
  VerbsPort& operator=(const VerbsPort&) = delete;
  ~VerbsPort();

  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  ibv_comp_channel* channel() const { return channel_; }
  std::uint8_t number() const { return number_; }
  const ibv_device_attr& device() const { return device_attr_; }
  // As it was when the port was opened, but for its state.
  const ibv_port_attr& attributes() const { return port_attr_; }
  // Asks the device.
  bool is_active() const;
  bool is_infiniband() const { return port_attr_.link_layer == IBV_LINK_LAYER_INFINIBAND; }
  // "mlx5_0 port 1"
  std::string describe() const;
  Rate link_rate() const;
  std::uint32_t mtu() const { return mtu_; }  // bytes, within the options

  // The table as it is now; entries that cannot be read are left out.
  std::vector<GidEntry> gids() const;
  Result<GidChoice> choose(const GidWish& wish) const;
  // Why the GID of new connections is the one it is.
  const GidChoice& gid() const { return gid_; }
  // Where a GID of ours is in the table now; nothing: it is gone.
  std::optional<std::uint32_t> index_of(const GidBytes& gid) const;
  // The IP address that others reach this port by: for InfiniBand that of its network interface.
  Result<NetAddress> address() const;
  // All of them.
  std::vector<NetAddress> addresses() const;

 private:
  VerbsPort() = default;
  // Opens the device and asks it about itself.
  Status open_device(ibv_device* device);
  Status open_port(const VerbsOptions& options);

  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  std::uint8_t number_ = 1;
  std::uint32_t mtu_ = 0;
  ibv_device_attr device_attr_{};
  ibv_port_attr port_attr_{};
  GidChoice gid_;
};

}  // namespace spindrift
