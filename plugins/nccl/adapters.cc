// RDMA devices, from /sys/class/infiniband, and the devices that the user names by addresses.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "plugins/nccl/devices.h"
#include "plugins/nccl/name_filter.h"

namespace spindrift::nccl {
namespace {

namespace fs = std::filesystem;

constexpr int kUnknownSpeedMbps = 10000;  // what NCCL assumes, too
constexpr std::string_view kAmazon = "0x1d0f";

std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "ec0d:9a03:00ca:fe01"
std::uint64_t read_guid(const fs::path& file) {
  std::string digits = read_line(file);
  std::erase(digits, ':');
  std::uint64_t guid = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), guid, 16);
  return guid;
}

// "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)"
int read_speed(const fs::path& file) {
  double gigabits = 0;
  std::ifstream in(file);
  in >> gigabits;
  return static_cast<int>(gigabits * 1000);
}

bool is_chosen(const Adapter& adapter, const DeviceChoice& choice) {
  const NameFilter own(choice.own_names);
  if (own.is_set()) return own.passes(adapter.name, adapter.port);
  return NameFilter(choice.adapters).passes(adapter.name, adapter.port);
}

Device to_device(const Adapter& adapter, bool has_several_ports) {
  Device device;
  device.name = has_several_ports ? absl::StrCat(adapter.name, ":", adapter.port) : adapter.name;
  device.pci_path = adapter.pci_path;
  device.guid = adapter.guid;
  device.speed_mbps = adapter.speed_mbps > 0 ? adapter.speed_mbps : kUnknownSpeedMbps;
  device.port = adapter.port;
  device.provider = adapter.is_efa ? "ofi" : "verbs";
  device.address = adapter.is_efa ? absl::StrCat("ofi://efa?domain=", adapter.name, "-rdm")
                                  : absl::StrCat("verbs://", adapter.name, ":", adapter.port);
  return device;
}

void number(std::vector<Device>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i)
    devices[i].parts = {static_cast<int>(i)};
}

// "0000:17:00.0", where the address of a DPDK port begins with it.
std::string bus_id_of(std::string_view host) {
  return host.size() == 12 && host[4] == ':' && host[7] == ':' ? std::string(host) : std::string();
}

// Of libfabric's providers and of ports by their bus: what /sys tells of where they are.
void place(Device& device, const std::string& host, const std::vector<Interface>& interfaces) {
  const std::string bus_id = bus_id_of(host);
  if (!bus_id.empty()) {
    std::error_code unreadable;
    const auto path = fs::canonical("/sys/bus/pci/devices/" + bus_id, unreadable);
    if (!unreadable) device.pci_path = path.string();
    return;
  }
  const auto address = parse_net_address(host.substr(host.find('@') + 1), 0);
  if (!address.ok()) return;
  for (const Interface& one : interfaces)
    for (const NetAddress& own : one.addresses)
      if (own.is_same_host(address.value())) {
        device.name += "-" + one.name;
        device.pci_path = one.pci_path;
        device.port = one.dev_port + 1;
        if (one.speed_mbps > 0) device.speed_mbps = one.speed_mbps;
      }
}

// Ports are for each endpoint to find: "ofi://net@10.0.0.1" listens at any.
std::string with_free_port(const Url& url, const std::string& text) {
  const std::string& host = url.hosts.front();
  const std::size_t at = host.find('@');
  const auto address = at == std::string::npos
                           ? Result<NetAddress>(Error(ErrorCode::kInvalidArgument, ""))
                           : parse_net_address(host.substr(at + 1), 0);
  if (url.scheme != "ofi" || !address.ok()) return text;
  const std::size_t question = text.find('?');
  return absl::StrCat("ofi://", host.substr(0, at + 1), address.value().to_string(),
                      question == std::string::npos ? "" : text.substr(question));
}

Result<Device> named_device(const std::string& text, const std::vector<Interface>& interfaces,
                            const std::vector<Adapter>& adapters) {
  const auto url = parse_url(text);
  if (!url.ok()) return url.error();
  const std::string& scheme = url.value().scheme;
  if (scheme != "ofi" && scheme != "verbs" && scheme != "dpdk")
    return Error(ErrorCode::kInvalidArgument,
                 text +
                     ": ofi://, verbs:// and dpdk:// may be named here; interfaces over UDP are "
                     "chosen by SPINDRIFT_NCCL_IFNAME");
  if (url.value().hosts.size() != 1)
    return Error(ErrorCode::kInvalidArgument, text + " names not one device");
  const std::string& host = url.value().hosts.front();
  for (const Adapter& adapter : adapters) {
    const bool is_it =
        host == adapter.name || host == absl::StrCat(adapter.name, ":", adapter.port);
    if (scheme != "verbs" || !is_it) continue;
    Device device = to_device(adapter, false);
    device.address = text;
    return device;
  }
  Device device;
  device.name = absl::StrCat(scheme, "-", host.substr(0, host.find('@')));
  device.speed_mbps = kUnknownSpeedMbps;
  device.provider = scheme;
  device.address = with_free_port(url.value(), text);
  place(device, host, interfaces);
  device.guid = std::hash<std::string>()(text) | 1;
  return device;
}

}  // namespace

std::vector<Adapter> scan_adapters(const std::string& folder) {
  std::vector<Adapter> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    std::error_code portless;
    for (const auto& port : fs::directory_iterator(entry.path() / "ports", portless)) {
      Adapter one;
      one.name = entry.path().filename().string();
      one.pci_path = pci_path_of(entry.path().string());
      one.guid = read_guid(entry.path() / "node_guid");
      const std::string number = port.path().filename().string();
      std::from_chars(number.data(), number.data() + number.size(), one.port);
      one.speed_mbps = read_speed(port.path() / "rate");
      one.is_active = read_line(port.path() / "state").find("ACTIVE") != std::string::npos;
      one.is_efa = read_line(entry.path() / "device" / "vendor") == kAmazon;
      found.push_back(one);
    }
  }
  std::sort(found.begin(), found.end(), [](const Adapter& a, const Adapter& b) {
    return std::tie(a.name, a.port) < std::tie(b.name, b.port);
  });
  return found;
}

std::vector<Device> adapter_devices(const std::vector<Adapter>& adapters,
                                    const DeviceChoice& choice) {
  std::vector<Device> devices;
  for (const Adapter& one : adapters) {
    if (!one.is_active || !is_chosen(one, choice)) continue;
    const auto ports = std::count_if(adapters.begin(), adapters.end(),
                                     [&](const Adapter& other) { return other.name == one.name; });
    devices.push_back(to_device(one, ports > 1));
  }
  return devices;
}

std::vector<Device> join_devices(std::vector<Device> of_adapters,
                                 const std::vector<Interface>& interfaces,
                                 const DeviceChoice& choice) {
  std::vector<Device> devices = std::move(of_adapters);
  const NameFilter own(choice.own_names);
  if (devices.empty() || (own.is_set() && !own.excludes()))
    for (Device& one : choose_devices(interfaces, choice))
      devices.push_back(std::move(one));
  std::stable_sort(devices.begin(), devices.end(), [](const Device& a, const Device& b) {
    return std::tuple(a.pci_path.empty(), a.pci_path, a.port) <
           std::tuple(b.pci_path.empty(), b.pci_path, b.port);
  });
  number(devices);
  return devices;
}

Result<std::vector<Device>> named_devices(const DeviceChoice& choice,
                                          const std::vector<Interface>& interfaces,
                                          const std::vector<Adapter>& adapters) {
  std::vector<Device> devices;
  const std::vector<std::string> addresses =
      absl::StrSplit(choice.rails, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  for (const std::string& address : addresses) {
    auto device = named_device(address, interfaces, adapters);
    if (!device.ok())
      return Error(device.error().code(), "SPINDRIFT_NCCL_RAILS: " + device.error().message());
    Device& one = device.value();
    const auto same = std::count_if(devices.begin(), devices.end(), [&](const Device& other) {
      return other.name.substr(0, other.name.find('#')) == one.name;
    });
    if (same != 0) one.name += absl::StrCat("#", same + 1);
    devices.push_back(std::move(one));
  }
  number(devices);
  return devices;
}

}  // namespace spindrift::nccl
