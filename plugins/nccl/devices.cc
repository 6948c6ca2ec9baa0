#include "plugins/nccl/devices.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "plugins/nccl/handle.h"
#include "plugins/nccl/name_filter.h"

namespace spindrift::nccl {
namespace {

constexpr int kUnknownSpeedMbps = 10000;   // what NCCL assumes, too
constexpr std::size_t kMaxVerbsPorts = 2;  // of one endpoint of verbs://

bool is_container_bridge(const std::string& name) {
  return name.starts_with("docker") || name.starts_with("br-") || name.starts_with("virbr") ||
         name.starts_with("cni") || name.starts_with("veth");
}

bool is_link_local(const NetAddress& address) {
  return address.family == 6 ? address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80
                             : address.ip[0] == 169 && address.ip[1] == 254;
}

const NetAddress* address_of(const Interface& interface, std::uint8_t family) {
  const NetAddress* best = nullptr;
  for (const NetAddress& address : interface.addresses) {
    if (is_link_local(address) || (family != 0 && address.family != family)) continue;
    if (best == nullptr || (best->family == 6 && address.family == 4)) best = &address;
  }
  return best;
}

// The MAC names the port; where there is none (loopback), the name does.
std::uint64_t guid_of(const Interface& interface) {
  std::uint64_t mac = 0;
  for (const char c : interface.mac) {
    if (c >= '0' && c <= '9') mac = mac * 16 + static_cast<std::uint64_t>(c - '0');
    if (c >= 'a' && c <= 'f') mac = mac * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
  }
  if (mac != 0) return mac;
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : interface.name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

bool is_chosen(const Interface& interface, const DeviceChoice& choice) {
  const NameFilter adapters(choice.adapters);
  if (adapters.is_set()) {
    if (interface.adapters.empty()) return adapters.excludes();
    return std::all_of(interface.adapters.begin(), interface.adapters.end(),
                       [&](const std::string& name) { return adapters.passes(name); });
  }
  return NameFilter(choice.interfaces).passes(interface.name);
}

// 0: used; 1: only where nothing better is there; 2: only where not even that is.
int rank_of(const Interface& interface, const DeviceChoice& choice) {
  const NameFilter named(choice.interfaces);
  if (named.is_set() && !named.excludes()) return 0;
  if (interface.is_loopback) return 2;
  return is_container_bridge(interface.name) ? 1 : 0;
}

Device to_device(const Interface& interface, const NetAddress& address) {
  Device device;
  device.name = interface.name;
  device.pci_path = interface.pci_path;
  device.guid = guid_of(interface);
  device.speed_mbps = interface.speed_mbps > 0 ? interface.speed_mbps : kUnknownSpeedMbps;
  device.port = interface.dev_port + 1;
  device.rails = {address};
  return device;
}

// Puts what opens `one` into the address of the merged device: "verbs://mlx5_0:1" and
// "verbs://mlx5_1:1" become "verbs://mlx5_0:1,mlx5_1:1".
Status join_addresses(Device& merged, const Device& one) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument,
                 merged.name + " and " + one.name + " cannot be merged: " + why);
  };
  if (one.provider != merged.provider)
    return refuse("one uses " + merged.provider + ", the other " + one.provider);
  if (one.provider == "udp") return ok_status();
  if (one.provider != "verbs")
    return refuse("only interfaces over UDP and RDMA devices can, and these use " + one.provider);
  if (merged.parts.size() == kMaxVerbsPorts)
    return refuse("an endpoint has at most " + std::to_string(kMaxVerbsPorts) + " RDMA ports");
  const auto options_of = [](const std::string& address) {
    return address.substr(std::min(address.find('?'), address.size()));
  };
  const std::string options = options_of(merged.address);
  if (options_of(one.address) != options) return refuse("their addresses differ in options");
  const std::size_t host = one.address.find("://") + 3;
  merged.address.resize(merged.address.size() - options.size());
  absl::StrAppend(&merged.address, ",",
                  one.address.substr(host, one.address.size() - options.size() - host), options);
  return ok_status();
}

}  // namespace

std::vector<Device> choose_devices(const std::vector<Interface>& interfaces,
                                   const DeviceChoice& choice) {
  int best = 3;
  for (const Interface& one : interfaces)
    if (is_chosen(one, choice) && address_of(one, choice.family) != nullptr)
      best = std::min(best, rank_of(one, choice));
  std::vector<const Interface*> chosen;
  for (const Interface& one : interfaces)
    if (is_chosen(one, choice) && rank_of(one, choice) == best &&
        address_of(one, choice.family) != nullptr)
      chosen.push_back(&one);
  const auto place = [](const Interface* one) {
    return std::tuple(one->pci_path.empty(), one->pci_path, one->dev_port, one->name);
  };
  std::sort(chosen.begin(), chosen.end(),
            [&](const Interface* a, const Interface* b) { return place(a) < place(b); });
  std::vector<Device> devices;
  for (const Interface* one : chosen) {
    devices.push_back(to_device(*one, *address_of(*one, choice.family)));
    devices.back().parts = {static_cast<int>(devices.size()) - 1};
  }
  return devices;
}

DeviceTable::DeviceTable(std::vector<Device> devices)
    : devices_(std::make_move_iterator(devices.begin()), std::make_move_iterator(devices.end())) {}

int DeviceTable::count() const {
  const std::lock_guard guard(mutex_);
  return static_cast<int>(devices_.size());
}

const Device* DeviceTable::find(int index) const {
  const std::lock_guard guard(mutex_);
  const auto size = static_cast<int>(devices_.size());
  return index < 0 || index >= size ? nullptr : &devices_[static_cast<std::size_t>(index)];
}

Result<int> DeviceTable::merge(const std::vector<int>& parts) {
  const std::lock_guard guard(mutex_);
  Device merged;
  for (const int part : parts) {
    if (part < 0 || part >= static_cast<int>(devices_.size()))
      return Error(ErrorCode::kInvalidArgument, "a merged device names device " +
                                                    std::to_string(part) + ", and there are " +
                                                    std::to_string(devices_.size()));
    const Device& one = devices_[static_cast<std::size_t>(part)];
    if (merged.parts.empty()) {
      merged = one;
      merged.parts = {part};
      continue;
    }
    if (Status joined = join_addresses(merged, one); !joined.ok()) return joined.error();
    merged.name += "+" + one.name;
    merged.speed_mbps += one.speed_mbps;
    merged.guid ^= one.guid << 1;
    merged.parts.push_back(part);
    merged.rails.insert(merged.rails.end(), one.rails.begin(), one.rails.end());
  }
  if (merged.parts.empty())
    return Error(ErrorCode::kInvalidArgument, "a merged device of no devices");
  if (!fits_handle(merged.rails))
    return Error(ErrorCode::kInvalidArgument,
                 merged.name + " has more addresses than a connection handle can hold (" +
                     std::to_string(kHandleBytes) + " bytes); merge fewer devices");
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].parts == merged.parts) return static_cast<int>(i);
  devices_.push_back(std::move(merged));
  return static_cast<int>(devices_.size()) - 1;
}

}  // namespace spindrift::nccl
