#include "providers/udp/udp_host.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include "providers/udp/udp_socket.h"

namespace spindrift {
namespace {

// IPv6's smallest MTU: passes wherever the route is not known.
constexpr std::uint32_t kSmallestMtu = 1280;

NetAddress address_of(const ifaddrs& interface) {
  SocketAddress address;
  if (interface.ifa_addr == nullptr) return NetAddress{};
  const auto family = interface.ifa_addr->sa_family;
  if (family == AF_INET) std::memcpy(&address.v4, interface.ifa_addr, sizeof address.v4);
  if (family == AF_INET6) std::memcpy(&address.v6, interface.ifa_addr, sizeof address.v6);
  NetAddress result = to_net_address(address);
  result.port = 0;
  return result;
}

void for_each_address(const std::function<void(const ifaddrs&, const NetAddress&)>& visit) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const NetAddress address = address_of(*one);
    if (address.is_set() && (one->ifa_flags & static_cast<unsigned>(IFF_UP)) != 0) {
      visit(*one, address);
    }
  }
}

bool is_link_local(const NetAddress& address) {
  return address.family == 6 && address.ip[0] == 0xfe && (address.ip[1] & 0xc0U) == 0x80;
}

// A socket connected to `remote`: the kernel has chosen a route.
UniqueFd connected_socket(const NetAddress* local, const NetAddress& remote) {
  const int domain = remote.family == 4 ? AF_INET : AF_INET6;
  UniqueFd fd(socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return fd;
  if (local != nullptr) {
    NetAddress any_port = *local;
    any_port.port = 0;
    const SocketAddress address = to_socket_address(any_port);
    if (bind(fd.get(), &address.any, address.length) != 0) return UniqueFd{};
  }
  NetAddress target = remote;
  if (target.port == 0) target.port = kDefaultPort;
  const SocketAddress address = to_socket_address(target);
  if (connect(fd.get(), &address.any, address.length) != 0) return UniqueFd{};
  return fd;
}

}  // namespace

std::vector<NetAddress> local_addresses(std::uint8_t family) {
  std::vector<NetAddress> result;
  for_each_address([&](const ifaddrs&, const NetAddress& address) {
    if (address.family == family) result.push_back(address);
  });
  const bool has_other = !std::all_of(result.begin(), result.end(), is_link_local);
  if (has_other) std::erase_if(result, is_link_local);
  return result;
}

Result<NetAddress> source_address_for(const NetAddress& remote) {
  const UniqueFd fd = connected_socket(nullptr, remote);
  if (!fd.is_open()) {
    return Error(ErrorCode::kNotFound, "no route to " + remote.to_string() + ": " +
                                           std::generic_category().message(errno) +
                                           " (see `ip route get`)");
  }
  NetAddress source = local_address_of(fd.get());
  source.port = 0;
  return source;
}

std::uint32_t route_max_packet_bytes(const NetAddress& local, const NetAddress& remote) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  if (local.family == remote.family) {
    const UniqueFd fd = connected_socket(&local, remote);
    const int level = local.family == 4 ? IPPROTO_IP : IPPROTO_IPV6;
    const int name = local.family == 4 ? IP_MTU : IPV6_MTU;
    if (!fd.is_open() || getsockopt(fd.get(), level, name, &mtu, &length) != 0) mtu = 0;
  }
  const std::uint32_t usable_mtu = mtu > 0 ? static_cast<std::uint32_t>(mtu) : kSmallestMtu;
  if (usable_mtu <= header_bytes(local)) return 0;
  return std::min(usable_mtu - header_bytes(local), kMaxUdpPayloadBytes);
}

Rate link_rate_of(const NetAddress& local) {
  std::string name;
  for_each_address([&](const ifaddrs& interface, const NetAddress& address) {
    if (address.is_same_host(local)) name = interface.ifa_name;
  });
  const std::string folder = "/sys/class/net/" + name;
  if (name.empty() || access((folder + "/device").c_str(), F_OK) != 0) return Rate{};
  std::int64_t megabits_per_second = 0;
  std::ifstream file(folder + "/speed");
  if (!(file >> megabits_per_second) || megabits_per_second <= 0) return Rate{};
  return Rate::bits_per_second(static_cast<std::uint64_t>(megabits_per_second) * 1'000'000);
}

}  // namespace spindrift
