// The kernel's interfaces, from getifaddrs() and /sys/class/net.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>

#include "plugins/nccl/devices.h"

namespace spindrift::nccl {
namespace {

namespace fs = std::filesystem;

std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

int read_number(const fs::path& file) {
  const std::string text = read_line(file);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "0000:17:00.0"
bool is_bus_id(const std::string& name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

std::vector<std::string> adapters_of(const fs::path& interface) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(interface / "device" / "infiniband", ignored))
    out.push_back(entry.path().filename().string());
  return out;
}

NetAddress to_net_address(const sockaddr& socket_address) {
  NetAddress address;
  if (socket_address.sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &socket_address, sizeof(in));
    std::memcpy(address.ip.data(), &in.sin_addr, 4);
    address.family = 4;
  } else if (socket_address.sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &socket_address, sizeof(in));
    std::memcpy(address.ip.data(), &in.sin6_addr, 16);
    address.family = 6;
  }
  return address;
}

Interface describe(const std::string& name, bool is_loopback) {
  const fs::path folder = fs::path("/sys/class/net") / name;
  Interface interface;
  interface.name = name;
  interface.is_loopback = is_loopback;
  interface.pci_path = pci_path_of(folder.string());
  interface.mac = read_line(folder / "address");
  interface.adapters = adapters_of(folder);
  interface.speed_mbps = std::max(0, read_number(folder / "speed"));
  interface.dev_port = read_number(folder / "dev_port");
  return interface;
}

}  // namespace

// Virtual functions of drivers (virtio2) hang below the PCI device that NCCL wants to know.
std::string pci_path_of(const std::string& folder) {
  char resolved[PATH_MAX];
  if (::realpath((folder + "/device").c_str(), resolved) == nullptr) return {};
  fs::path path(resolved);
  while (path.has_relative_path()) {
    if (is_bus_id(path.filename().string())) return path.string();
    path = path.parent_path();
  }
  return {};
}

std::vector<Interface> scan_interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const NetAddress address = to_net_address(*entry->ifa_addr);
    if (!address.is_set()) continue;
    const std::string name = entry->ifa_name;
    auto at = std::find_if(found.begin(), found.end(),
                           [&](const Interface& one) { return one.name == name; });
    if (at == found.end())
      at = found.insert(found.end(), describe(name, (entry->ifa_flags & IFF_LOOPBACK) != 0));
    at->addresses.push_back(address);
  }
  ::freeifaddrs(list);
  return found;
}

}  // namespace spindrift::nccl
