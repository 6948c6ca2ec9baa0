#pragma once
// One endpoint of libfabric with what it needs, opened by what fi_getinfo() says, never by a
// provider's name. Part of the module libspindrift-ofi.so, which alone links libfabric.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

// "fi_domain: Resource temporarily unavailable"; `code` as libfabric returns it.
Error fi_refused(const std::string& call, long code);

template <class Fid>
struct FiClose {
  void operator()(Fid* fid) const {
    if (fid != nullptr) fi_close(&fid->fid);
  }
};
template <class Fid>
using FiOwner = std::unique_ptr<Fid, FiClose<Fid>>;
struct FiFreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using FiInfo = std::unique_ptr<fi_info, FiFreeInfo>;

// Which of libfabric's offers to take.
struct OfiWish {
  std::string provider{};  // empty: the first that it lists
  std::string domain{};    // empty: likewise
  NetAddress source{};     // of this host, where the provider has IP addresses; unset: any
  // Where the provider has IP addresses: 4 or 6; 0: any. Only with a domain.
  std::uint8_t family = 0;
};

// The first offer that Spindrift can use. kUnsupported, with what libfabric does offer.
Result<FiInfo> find_offer(const OfiWish& wish);

// What the offer means for us.
struct OfiTraits {
  bool can_read = false;           // the peer's memory
  bool reads_in_order = false;     // a read sees what is there after the read before it
  bool needs_local_keys = false;   // FI_MR_LOCAL: memory that it moves is registered
  bool names_by_address = false;   // FI_MR_VIRT_ADDR
  bool chooses_keys = false;       // FI_MR_PROV_KEY
  bool binds_to_endpoint = false;  // FI_MR_ENDPOINT
  std::uint64_t largest_key = 0;   // of ours, where it does not choose
  std::size_t inject_bytes = 0;
  std::size_t max_message = 0;
  std::size_t max_local = 1;      // pieces of our memory in one read
  std::size_t max_remote = 1;     // ... of the peer's
  std::size_t receive_depth = 0;  // operations that may be posted
  std::size_t send_depth = 0;
};
OfiTraits traits_of(const fi_info& info);

class OfiDevice {
 public:
  static Result<std::unique_ptr<OfiDevice>> open(const OfiWish& wish);

  const fi_info& info() const { return *info_; }
  const OfiTraits& traits() const { return traits_; }
  std::string provider() const { return info_->fabric_attr->prov_name; }
  std::string domain_name() const { return info_->domain_attr->name; }
  fid_domain* domain() const { return domain_.get(); }
  fid_ep* endpoint() const { return endpoint_.get(); }
  // Reads begin at an endpoint of their own: closing it is the one way to stop them that every
  // provider has, and messages go on.
  // Null where it could not be renewed.
  fid_ep* reader() const { return reader_.get(); }
  // Nothing that was begun at the old one lands any more.
  Status renew_reader();
  fid_cq* completions() const { return completions_.get(); }
  // Of the endpoint, for the peer's fi_av_insert().
  std::span<const std::byte> name() const { return name_; }
  // The IP address that this name holds, or loopback where the provider reaches this host alone;
  // unset: it says nothing of either. Port 0.
  NetAddress own_address() const;
  // Whether such a name can be one of this provider's.
  bool may_be_name(std::span<const std::byte> name) const;
  Result<fi_addr_t> add_peer(std::span<const std::byte> name);
  void remove_peer(std::span<const std::byte> name, fi_addr_t address);

  // To sleep on; -1: the provider has none.
  int wait_fd() const { return wait_fd_; }
  // Whether one may sleep on it now.
  bool may_sleep() const;
  // Whether it is readable. Where it is although one may sleep and there are no completions, for
  // ever (net of libfabric 1.17), it is of no use.
  bool is_woken() const;
  void forget_wait_fd() { wait_fd_ = -1; }
  // Nothing that was posted moves any more, for any peer.
  void close_endpoints() {
    reader_.reset();
    endpoint_.reset();
  }

 private:
  OfiDevice() = default;
  Status open_all();
  Status open_completions();
  Result<FiOwner<fid_ep>> make_endpoint() const;

  struct KnownPeer {
    std::vector<std::byte> name;
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::uint32_t uses = 0;
  };

  FiInfo info_;
  OfiTraits traits_;
  FiOwner<fid_fabric> fabric_;
  FiOwner<fid_domain> domain_;
  FiOwner<fid_cq> completions_;
  FiOwner<fid_av> addresses_;
  FiOwner<fid_ep> endpoint_;
  FiOwner<fid_ep> reader_;
  std::vector<std::byte> name_;
  std::vector<KnownPeer> peers_;
  int wait_fd_ = -1;
};

}  // namespace spindrift
