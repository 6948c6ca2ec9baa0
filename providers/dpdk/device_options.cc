#include "providers/dpdk/device_options.h"

#include <array>
#include <optional>
#include <string_view>

#include "transport/base/text_pieces.h"

namespace spindrift {
namespace {

// IPv6's smallest MTU, and what a 16-bit length allows.
constexpr std::uint32_t kMinMtu = 1280;
constexpr std::uint32_t kMaxMtu = 65000;

constexpr std::array<DeviceOptionInfo, 14> kOptions{{
    {"ip", "", "", 0, 0, "addresses with prefix length, 10.0.0.1/24,fd00::1/64; needed"},
    {"port", "", "0", 0, 65535, "of UDP, on all addresses; 0: any that is free"},
    {"gateway", "", "", 0, 0, "where packets for other networks go; one per family"},
    {"neighbor", "", "", 0, 0, "IP@MAC, ...: known without asking"},
    {"args", "", "", 0, 0, "what the driver is told, KEY=VALUE,..."},
    {"mac", "", "", 0, 0, "Ethernet address; else the device's own"},
    {"vlan", "", "0", 0, 4094, "tag of all frames; 0: none"},
    {"mtu", "bytes", "1500", kMinMtu, kMaxMtu, "largest IP packet"},
    {"queues", "", "1", 1, 64, "queue pairs; endpoints beyond that share them"},
    {"ring", "packets", "1024", 64, 16384, "descriptors per queue and direction"},
    {"mbufs", "packets", "0", 0, 1U << 20U, "what a pool holds; 0: four rings"},
    {"neighbor_ms", "ms", "30000", 10, 3600000, "after which a neighbour in use is asked again"},
    {"checksum", "", "auto", 0, 0,
     "of UDP: auto by the port, else none over IPv4; on: else in software; off: none over IPv4"},
    {"payload", "", "auto", 0, 0,
     "copy: into packets; in_place: sent from where it lies, if the device can; auto: as is "
     "faster"},
}};

Error refusal(std::string_view key, std::string_view value, std::string_view why) {
  return Error(ErrorCode::kInvalidArgument, "dpdk option " + std::string(key) + "=" +
                                                std::string(value) + ": " + std::string(why));
}

// Numeric only: a name would be looked up on a network that this device may be the way to.
Result<NetAddress> parse_ip(std::string_view key, std::string_view text) {
  static constexpr std::string_view kHint = "write a numeric address, as in 10.0.0.1 or fd00::1";
  const bool is_numeric =
      text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos;
  const bool is_v6 = text.find(':') != std::string_view::npos;
  if (text.empty() || !is_numeric ||
      (!is_v6 && text.find_first_not_of("0123456789.") != std::string_view::npos))
    return refusal(key, text, kHint);
  std::string host;
  host.append(is_v6 ? "[" : "").append(text).append(is_v6 ? "]" : "");
  auto parsed = parse_net_address(host, 0);
  if (!parsed.ok()) return refusal(key, text, kHint);
  return parsed;
}

Result<LocalNet> parse_net(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos)
    return refusal("ip", text, "its prefix length is missing, as in 10.0.0.1/24");
  const auto address = parse_ip("ip", text.substr(0, slash));
  if (!address.ok()) return address.error();
  LocalNet net{.address = address.value()};
  const std::uint32_t most = net.address.family == 6 ? 128 : 32;
  const auto bits = parse_number(text.substr(slash + 1));
  if (!bits || *bits > most)
    return refusal("ip", text, "the prefix length is a number of 0.." + std::to_string(most));
  const bool is_group =
      net.address.family == 6 ? net.address.ip[0] == 0xff : net.address.ip[0] >= 224;
  if (net.address.is_wildcard() || is_group || net.address.is_loopback())
    return refusal("ip", text, "that is no address of one host on a network");
  net.prefix_bits = static_cast<std::uint8_t>(*bits);
  return net;
}

Status set_nets(std::string_view text, DeviceOptions& out) {
  for (const std::string_view one : split(text, ',')) {
    const auto net = parse_net(one);
    if (!net.ok()) return net.error();
    for (const LocalNet& other : out.nets)
      if (other.address.is_same_host(net.value().address))
        return refusal("ip", text, "an address stands there twice");
    out.nets.push_back(net.value());
  }
  return ok_status();
}

Status set_gateways(std::string_view text, DeviceOptions& out) {
  for (const std::string_view one : split(text, ',')) {
    const auto gateway = parse_ip("gateway", one);
    if (!gateway.ok()) return gateway.error();
    for (const NetAddress& other : out.gateways)
      if (other.family == gateway.value().family)
        return refusal("gateway", text, "there is one gateway per family");
    out.gateways.push_back(gateway.value());
  }
  return ok_status();
}

Status set_neighbors(std::string_view text, DeviceOptions& out) {
  for (const std::string_view one : split(text, ',')) {
    const std::size_t at = one.find('@');
    const auto mac = at == std::string_view::npos ? std::nullopt : parse_mac(one.substr(at + 1));
    if (!mac || mac->is_group())
      return refusal("neighbor", one, "write IP@MAC, as in 10.0.0.2@02:00:00:00:00:02");
    const auto address = parse_ip("neighbor", one.substr(0, at));
    if (!address.ok()) return address.error();
    out.neighbors.push_back({address.value(), *mac});
  }
  return ok_status();
}

Status set_checksum(std::string_view text, DeviceOptions& out) {
  if (text == "auto")
    out.checksum = ChecksumChoice::kAuto;
  else if (text == "on")
    out.checksum = ChecksumChoice::kOn;
  else if (text == "off")
    out.checksum = ChecksumChoice::kOff;
  else
    return refusal("checksum", text, "it is auto, on or off");
  return ok_status();
}

Status set_payload(std::string_view text, DeviceOptions& out) {
  if (text == "auto")
    out.payload = PayloadChoice::kAuto;
  else if (text == "copy")
    out.payload = PayloadChoice::kCopy;
  else if (text == "in_place")
    out.payload = PayloadChoice::kInPlace;
  else
    return refusal("payload", text, "it is auto, copy or in_place");
  return ok_status();
}

Status set_mac(std::string_view text, DeviceOptions& out) {
  const auto mac = parse_mac(text);
  if (!mac || mac->is_group() || mac->is_zero())
    return refusal("mac", text, "write the address of one station, as in 02:00:00:00:00:01");
  out.mac = *mac;
  return ok_status();
}

std::uint32_t* number_of(std::string_view name, DeviceOptions& out) {
  if (name == "port") return &out.port;
  if (name == "vlan") return &out.vlan;
  if (name == "mtu") return &out.mtu;
  if (name == "queues") return &out.queues;
  if (name == "ring") return &out.ring;
  if (name == "mbufs") return &out.mbufs;
  if (name == "neighbor_ms") return &out.neighbor_ms;
  return nullptr;
}

Status set_number(const DeviceOptionInfo& info, std::string_view text, DeviceOptions& out) {
  const auto value = parse_number(text);
  if (!value || *value < info.min || *value > info.max)
    return refusal(
        info.name, text,
        "it is a number of " + std::to_string(info.min) + ".." + std::to_string(info.max));
  *number_of(info.name, out) = *value;
  return ok_status();
}

Status set_option(const DeviceOptionInfo& info, std::string_view text, DeviceOptions& out) {
  if (info.max != 0) return set_number(info, text, out);
  if (info.name == "ip") return set_nets(text, out);
  if (info.name == "gateway") return set_gateways(text, out);
  if (info.name == "neighbor") return set_neighbors(text, out);
  if (info.name == "mac") return set_mac(text, out);
  if (info.name == "checksum") return set_checksum(text, out);
  if (info.name == "payload") return set_payload(text, out);
  out.arguments = std::string(text);
  return ok_status();
}

std::string known_names() {
  std::string names;
  for (const DeviceOptionInfo& info : kOptions)
    names.append(names.empty() ? "" : ", ").append(info.name);
  return names;
}

Status set_for_all(const std::string& key, const std::string& text,
                   std::vector<DeviceOptions>& devices) {
  for (const DeviceOptionInfo& info : kOptions) {
    if (info.name != key) continue;
    const auto values = split(text, '|');
    if (values.size() != 1 && values.size() != devices.size())
      return refusal(key, text,
                     "there are " + std::to_string(devices.size()) +
                         " devices: give one value for all, or one for each with '|' "
                         "between");
    for (std::size_t i = 0; i < devices.size(); ++i) {
      Status status = set_option(info, values[values.size() == 1 ? 0 : i], devices[i]);
      if (!status.ok()) return status;
    }
    return ok_status();
  }
  return Error(ErrorCode::kInvalidArgument,
               "dpdk has no option '" + key + "'; it knows " + known_names());
}

// What no single option shows.
Status check(const std::vector<DeviceOptions>& devices) {
  for (const DeviceOptions& one : devices) {
    if (one.nets.empty())
      return Error(ErrorCode::kInvalidArgument,
                   "dpdk device " + one.device +
                       " has no address: say ?ip=ADDRESS/PREFIX, as in ip=10.0.0.1/24");
    for (const DeviceOptions& other : devices) {
      if (&other == &one) continue;
      if (other.device == one.device)
        return Error(ErrorCode::kInvalidArgument, "dpdk device " + one.device + " is named twice");
      for (const LocalNet& net : one.nets)
        for (const LocalNet& taken : other.nets)
          if (net.address.is_same_host(taken.address))
            return Error(ErrorCode::kInvalidArgument,
                         "dpdk devices " + one.device + " and " + other.device +
                             " have the same address; give each its own, with '|' between");
    }
    for (const NetAddress& gateway : one.gateways) {
      bool is_reached = false;
      for (const LocalNet& net : one.nets)
        is_reached = is_reached || net.contains(gateway);
      if (!is_reached)
        return Error(ErrorCode::kInvalidArgument, "dpdk option gateway: none of the networks of " +
                                                      one.device + " (option ip) contains it");
    }
  }
  return ok_status();
}

}  // namespace

bool LocalNet::contains(const NetAddress& other) const {
  if (other.family != address.family) return false;
  for (std::uint32_t bit = 0; bit < prefix_bits; bit += 8) {
    const std::uint32_t left = prefix_bits - bit;
    const unsigned mask = left >= 8 ? 0xffU : (0xff00U >> left) & 0xffU;
    if (((address.ip[bit / 8] ^ other.ip[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::span<const DeviceOptionInfo> device_option_infos() {
  return kOptions;
}

Result<std::vector<DeviceOptions>> parse_device_options(const Url& url) {
  if (url.hosts.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "a dpdk address names a device, as in dpdk://0000:3b:00.0?ip=10.0.0.1/24 or "
                 "dpdk://net_memif0?ip=10.0.0.1/24&args=role=server,socket=/run/m.sock");
  std::vector<DeviceOptions> devices;
  for (const std::string& host : url.hosts)
    devices.push_back(DeviceOptions{.device = host});
  for (const auto& [key, text] : url.options) {
    const Status status = set_for_all(key, text, devices);
    if (!status.ok()) return status.error();
  }
  const Status status = check(devices);
  if (!status.ok()) return status.error();
  return devices;
}

}  // namespace spindrift
