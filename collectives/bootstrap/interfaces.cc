#include "collectives/bootstrap/interfaces.h"

#include <algorithm>
#include <string_view>

#include <absl/cleanup/cleanup.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "collectives/bootstrap/socket.h"

namespace spindrift::collectives {
namespace {

struct Found {
  NetAddress address;
  bool is_bridge = false;
};

bool is_container_bridge(std::string_view interface) {
  return interface.starts_with("docker") || interface.starts_with("br-") ||
         interface.starts_with("virbr") || interface.starts_with("cni");
}

NetAddress address_of(const sockaddr* socket_address) {
  sockaddr_storage storage{};
  if (socket_address->sa_family == AF_INET) {
    storage = sockaddr_storage{};
    *reinterpret_cast<sockaddr_in*>(&storage) =
        *reinterpret_cast<const sockaddr_in*>(socket_address);
  } else if (socket_address->sa_family == AF_INET6) {
    *reinterpret_cast<sockaddr_in6*>(&storage) =
        *reinterpret_cast<const sockaddr_in6*>(socket_address);
  }
  NetAddress address = from_socket_address(storage);
  address.port = 0;
  return address;
}

bool is_link_local(const NetAddress& address) {
  return address.family == 6 ? address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80
                             : address.ip[0] == 169 && address.ip[1] == 254;
}

}  // namespace

std::vector<NetAddress> own_addresses(bool has_loopback) {
  std::vector<Found> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const absl::Cleanup free_list = [list] { ::freeifaddrs(list); };
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const NetAddress address = address_of(entry->ifa_addr);
    if (!address.is_set() || is_link_local(address)) continue;
    if (address.is_loopback() && !has_loopback) continue;
    found.push_back({.address = address, .is_bridge = is_container_bridge(entry->ifa_name)});
  }
  const auto place = [](const Found& one) {
    return (one.is_bridge ? 2 : 0) + (one.address.family == 6 ? 1 : 0);
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Found& a, const Found& b) { return place(a) < place(b); });
  std::vector<NetAddress> addresses;
  addresses.reserve(found.size());
  for (const Found& one : found)
    addresses.push_back(one.address);
  return addresses;
}

}  // namespace spindrift::collectives
