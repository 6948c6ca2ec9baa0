#include "providers/verbs/verbs_port.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "providers/verbs/verbs_trouble.h"

namespace spindrift {
namespace {

constexpr std::size_t kMostGids = 1024;

// The list of devices, freed at the end.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)), error_(errno) {}
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  std::span<ibv_device* const> devices() const {
    return {list_, list_ == nullptr ? 0 : static_cast<std::size_t>(count_)};
  }
  Status check() const {
    if (list_ == nullptr || count_ == 0)
      return Error(ErrorCode::kUnsupported, explain_no_device(list_ == nullptr ? error_ : 0));
    return ok_status();
  }
  std::string names() const {
    std::string out;
    for (ibv_device* const one : devices())
      out.append(out.empty() ? "" : ", ").append(ibv_get_device_name(one));
    return out;
  }

 private:
  int count_ = 0;
  ibv_device** list_;
  int error_;
};

// An address of a network interface of this host, and how many of its bits its network shares.
struct InterfaceAddress {
  std::string interface;
  NetAddress address;
  std::uint8_t prefix_bits = 0;
  bool is_up = false;
};

std::uint8_t count_bits(const void* mask, std::size_t bytes) {
  const auto* const at = static_cast<const std::uint8_t*>(mask);
  int bits = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    bits += std::popcount(at[i]);
  return static_cast<std::uint8_t>(bits);
}

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr) continue;
    InterfaceAddress one{.interface = at->ifa_name, .address = {}};
    one.is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_RUNNING) != 0;
    if (at->ifa_addr->sa_family == AF_INET) {
      const auto& from = *reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      one.address.family = 4;
      std::memcpy(one.address.ip.data(), &from.sin_addr, 4);
      one.prefix_bits =
          count_bits(&reinterpret_cast<const sockaddr_in*>(at->ifa_netmask)->sin_addr, 4);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const auto& from = *reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      one.address.family = 6;
      std::memcpy(one.address.ip.data(), &from.sin6_addr, 16);
      one.prefix_bits =
          count_bits(&reinterpret_cast<const sockaddr_in6*>(at->ifa_netmask)->sin6_addr, 16);
    } else {
      continue;
    }
    out.push_back(one);
  }
  freeifaddrs(list);
  return out;
}

bool is_interface_up(const std::vector<InterfaceAddress>& all, const std::string& name) {
  return std::any_of(all.begin(), all.end(), [&](const InterfaceAddress& one) {
    return one.interface == name && one.is_up;
  });
}

GidEntry to_entry(const ibv_gid_entry& from, const std::vector<InterfaceAddress>& interfaces) {
  GidEntry out{.index = from.gid_index};
  std::copy_n(std::begin(from.gid.raw), out.gid.size(), out.gid.begin());
  out.type = from.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::kRoceV2
             : from.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::kRoceV1
                                                     : GidType::kInfiniBand;
  std::array<char, IF_NAMESIZE> name{};
  if (from.ndev_ifindex == 0 || if_indextoname(from.ndev_ifindex, name.data()) == nullptr)
    return out;
  out.interface = name.data();
  out.is_interface_up = is_interface_up(interfaces, out.interface);
  const NetAddress address = address_of(out.gid);
  for (const InterfaceAddress& one : interfaces)
    if (one.address.is_same_host(address)) out.prefix_bits = one.prefix_bits;
  return out;
}

// InfiniBand has no addresses of IP: those of the interface that the kernel runs over the port.
std::string interface_over(const ibv_context* context, std::uint8_t port) {
  const std::filesystem::path folder = std::filesystem::path("/sys/class/infiniband") /
                                       ibv_get_device_name(context->device) / "device" / "net";
  std::error_code error;
  for (const auto& one : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = one.path().filename().string();
    if (port_of_interface(name) == port) return name;
  }
  return {};
}

}  // namespace

Status probe_verbs() {
  return DeviceList().check();
}

VerbsPort::~VerbsPort() {
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
  if (context_ != nullptr) ibv_close_device(context_);
}

Status VerbsPort::open_device(ibv_device* device) {
  const std::string name = ibv_get_device_name(device);
  context_ = ibv_open_device(device);
  if (context_ == nullptr)
    return Error(ErrorCode::kIo, "verbs: " + name + " cannot be opened: " + explain_open(errno));
  if (ibv_query_device(context_, &device_attr_) != 0)
    return Error(ErrorCode::kIo, "verbs: " + name + " does not answer questions about itself");
  return ok_status();
}

Result<std::vector<VerbsPort::Found>> VerbsPort::look(const VerbsOptions& options) {
  prepare_for_fork();
  const DeviceList list;
  if (Status status = list.check(); !status.ok()) return status.error();
  const auto is_wanted = [&options](const std::string& device, std::uint8_t port) {
    if (options.devices.empty()) return options.filter.lets(device, port);
    return std::any_of(options.devices.begin(), options.devices.end(), [&](const DevicePort& one) {
      return one.device == device && (one.port == 0 || one.port == port);
    });
  };
  std::vector<Found> out;
  for (ibv_device* const device : list.devices()) {
    const std::string name = ibv_get_device_name(device);
    int ports = 1;
    for (int number = 1; number <= ports; ++number) {
      if (!is_wanted(name, static_cast<std::uint8_t>(number))) continue;
      std::unique_ptr<VerbsPort> port(new VerbsPort);
      port->number_ = static_cast<std::uint8_t>(number);
      if (const Status opened = port->open_device(device); !opened.ok()) {
        out.push_back({.device = name, .port = nullptr, .trouble = opened.error().message()});
        break;
      }
      ports = port->device_attr_.phys_port_cnt;
      if (ibv_query_port(port->context_, port->number_, &port->port_attr_) == 0)
        out.push_back({.device = name, .port = std::move(port)});
    }
  }
  if (out.empty())
    return Error(ErrorCode::kNotFound,
                 "verbs: this host has no such device; it has: " + list.names());
  return out;
}

Result<std::unique_ptr<VerbsPort>> VerbsPort::open(const VerbsOptions& options,
                                                   const DevicePort& wanted) {
  prepare_for_fork();
  const DeviceList list;
  if (Status status = list.check(); !status.ok()) return status.error();
  std::string passed;  // ports that were looked at, and why they will not do
  for (ibv_device* const device : list.devices()) {
    const std::string name = ibv_get_device_name(device);
    if (!wanted.device.empty() && name != wanted.device) continue;
    std::unique_ptr<VerbsPort> port(new VerbsPort);
    if (const Status asked = port->open_device(device); !asked.ok()) return asked.error();
    for (std::uint8_t i = 1; i <= port->device_attr_.phys_port_cnt; ++i) {
      if (wanted.port != 0 && i != wanted.port) continue;
      if (wanted.device.empty() && !options.filter.lets(name, i)) continue;
      port->number_ = i;
      if (ibv_query_port(port->context_, i, &port->port_attr_) != 0) continue;
      // A port that is named may come up later.
      const bool is_usable = wanted.port != 0 || port->port_attr_.state == IBV_PORT_ACTIVE;
      if (!is_usable) {
        passed += (passed.empty() ? "" : ", ") + port->describe() + " is " +
                  ibv_port_state_str(port->port_attr_.state);
        continue;
      }
      const Status opened = port->open_port(options);
      if (!opened.ok()) return opened.error();
      return port;
    }
  }
  return Error(ErrorCode::kNotFound,
               "verbs: no port of " +
                   (wanted.device.empty() ? std::string("any device that may be used")
                                          : wanted.to_string()) +
                   " can be used" + (passed.empty() ? "" : " (" + passed + ")") +
                   "; this host has: " + list.names());
}

Status VerbsPort::open_port(const VerbsOptions& options) {
  const GidWish wish{.index = options.gid_index,
                     .address = options.gid_address,
                     .origin = options.gid_origin,
                     .peer = {}};
  auto chosen = choose(wish);
  if (!chosen.ok()) return chosen.error();
  gid_ = std::move(chosen).value();
  mtu_ = std::min(128U << static_cast<unsigned>(port_attr_.active_mtu), options.mtu);
  domain_ = ibv_alloc_pd(context_);
  if (domain_ == nullptr)
    return Error(ErrorCode::kNoMemory,
                 "verbs: " + describe() + " has no protection domain left: " + in_words(errno));
  channel_ = ibv_create_comp_channel(context_);
  if (channel_ == nullptr)
    return Error(ErrorCode::kNoMemory,
                 "verbs: " + describe() + " has no completion channel left: " + in_words(errno));
  for (const int fd : {channel_->fd, context_->async_fd})
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return Error(ErrorCode::kIo, "verbs: fcntl: " + in_words(errno));
  return ok_status();
}

bool VerbsPort::is_active() const {
  ibv_port_attr now{};
  return ibv_query_port(context_, number_, &now) == 0 && now.state == IBV_PORT_ACTIVE;
}

std::string VerbsPort::describe() const {
  return std::string(ibv_get_device_name(context_->device)) + " port " + std::to_string(number_);
}

Rate VerbsPort::link_rate() const {
  // Lanes of the cable times what each carries, in tenths of Gb/s; as the standard numbers them.
  std::uint64_t wires = 1;
  switch (port_attr_.active_width) {
    case 2:
      wires = 4;
      break;
    case 4:
      wires = 8;
      break;
    case 8:
      wires = 12;
      break;
    case 16:
      wires = 2;
      break;
    default:
      break;
  }
  std::uint64_t tenths = 0;
  switch (port_attr_.active_speed) {
    case 1:
      tenths = 25;
      break;
    case 2:
      tenths = 50;
      break;
    case 4:
    case 8:
      tenths = 100;
      break;
    case 16:
      tenths = 140;
      break;
    case 32:
      tenths = 250;
      break;
    case 64:
      tenths = 500;
      break;
    case 128:
      tenths = 1000;
      break;
    default:
      break;
  }
  return Rate::bits_per_second(wires * tenths * 100'000'000);
}

std::vector<GidEntry> VerbsPort::gids() const {
  std::vector<ibv_gid_entry> found(kMostGids);
  // Only entries that are valid; those of other namespaces are not among them.
  const ssize_t count = ibv_query_gid_table(context_, found.data(), found.size(), 0);
  std::vector<GidEntry> out;
  const std::vector<InterfaceAddress> interfaces = interface_addresses();
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& one = found[static_cast<std::size_t>(i)];
    if (one.port_num == number_) out.push_back(to_entry(one, interfaces));
  }
  return out;
}

Result<GidChoice> VerbsPort::choose(const GidWish& wish) const {
  return choose_gid(gids(), wish, describe());
}

std::optional<std::uint32_t> VerbsPort::index_of(const GidBytes& gid) const {
  const std::vector<GidEntry> table = gids();
  const GidEntry* found = nullptr;
  for (const GidEntry& entry : table)
    if (entry.gid == gid && (found == nullptr || entry.type == GidType::kRoceV2)) found = &entry;
  if (found == nullptr) return std::nullopt;
  return found->index;
}

std::vector<NetAddress> VerbsPort::addresses() const {
  std::vector<NetAddress> out;
  if (is_infiniband()) {
    const std::string interface = interface_over(context_, number_);
    for (const InterfaceAddress& one : interface_addresses())
      if (one.interface == interface) out.push_back(one.address);
    return out;
  }
  const auto add = [&out](const GidBytes& gid) {
    const NetAddress address = address_of(gid);
    for (const NetAddress& known : out)
      if (known.is_same_host(address)) return;
    if (!is_link_local(gid)) out.push_back(address);
  };
  add(gid_.entry.gid);
  for (const GidEntry& entry : gids())
    add(entry.gid);
  return out;
}

Result<NetAddress> VerbsPort::address() const {
  const std::vector<NetAddress> all = addresses();
  if (!all.empty()) return all.front();
  return Error(ErrorCode::kUnavailable,
               "verbs: " + describe() +
                   " has no IP address, by which the two sides of a connection find each other: " +
                   (is_infiniband() ? "give its IPoIB interface one"
                                    : "give its network interface one that is not link-local"));
}

}  // namespace spindrift
