#include "providers/verbs/verbs_options.h"

#include <algorithm>
#include <array>

#include "transport/base/text_pieces.h"

namespace spindrift {
namespace {

constexpr std::array<VerbsOptionInfo, 16> kOptions{{
    {"transport", "", "rc", 0, 0, "",
     "rc: reliable queue pairs; uc: packets by several queue pairs; ud: packets by one"},
    {"gid", "", "auto", 0, 0, "NCCL_IB_GID_INDEX",
     "auto, an index of the port's GID table, or the IP address that the GID stands for"},
    {"cm", "", "tcp", 0, 0, "",
     "how connections come about: tcp, or rdma: by rdma_cm, for rc; the same on both sides"},
    {"port", "", "0", 0, 65535, "", "where connections are made, of TCP (ud: UDP); 0: a free one"},
    {"lanes", "queue pairs", "8", 1, 64, "",
     "per connection, each with a UDP source port of its own: what is read (rc), or packets (uc)"},
    {"mtu", "bytes", "4096", 256, 4096, "", "upper bound of the payload of a packet"},
    {"tc", "", "0", 0, 255, "NCCL_IB_TC", "traffic class: DSCP times 4"},
    {"sl", "", "0", 0, 15, "NCCL_IB_SL", "service level"},
    {"pkey", "", "0", 0, 65535, "NCCL_IB_PKEY", "index in the port's P_Key table"},
    {"timeout", "", "16", 1, 31, "NCCL_IB_TIMEOUT",
     "4.096 us times 2 to this power until a packet is sent again"},
    {"retry", "", "6", 0, 7, "NCCL_IB_RETRY_CNT", "times that a packet is sent again"},
    {"buffers", "messages", "64", 16, 1024, "", "per connection and direction, under way at once"},
    {"read_from", "bytes", "8192", 512, 16384, "", "messages from this length on are read"},
    {"reads", "reads", "16", 1, 128, "", "under way per lane, where both devices can"},
    {"relaxed", "", "auto", 0, 0, "NCCL_IB_PCI_RELAXED_ORDERING",
     "ordering of PCI writes into registered memory: on, off, or auto where the device can"},
    {"hca", "", "", 0, 0, "NCCL_IB_HCA", "which devices, where the address names none"},
}};

Error refusal(std::string_view key, std::string_view value, std::string_view why) {
  return Error(ErrorCode::kInvalidArgument,
               "verbs: " + std::string(key) + "=" + std::string(value) + ": " + std::string(why));
}

// Port 0 of a device is none.
std::optional<DevicePort> parse_device(std::string_view text) {
  DevicePort out;
  const std::size_t colon = text.rfind(':');
  out.device = std::string(text.substr(0, colon));
  if (colon != std::string_view::npos) {
    const auto port = parse_number(text.substr(colon + 1));
    if (!port || *port == 0 || *port > 254) return std::nullopt;
    out.port = static_cast<std::uint8_t>(*port);
  }
  if (out.device.empty() || out.device.find('/') != std::string::npos) return std::nullopt;
  return out;
}

Status set_transport(std::string_view key, std::string_view text, VerbsOptions& out) {
  for (const VerbsTransport one : {VerbsTransport::kRc, VerbsTransport::kUc, VerbsTransport::kUd}) {
    if (text != to_string(one)) continue;
    out.transport = one;
    return ok_status();
  }
  return refusal(key, text, "it is rc, uc or ud");
}

Status set_meeting(std::string_view key, std::string_view text, VerbsOptions& out) {
  if (text != "tcp" && text != "rdma") return refusal(key, text, "it is tcp or rdma");
  out.meeting = text == "tcp" ? VerbsMeeting::kTcp : VerbsMeeting::kRdmaCm;
  return ok_status();
}

Status set_gid(std::string_view key, std::string_view text, VerbsOptions& out) {
  out.gid_index.reset();
  out.gid_address.reset();
  out.gid_origin = std::string(key) + "=" + std::string(text);
  // NCCL: a negative index leaves the choice to the library.
  if (text == "auto" || text == "-1") return ok_status();
  if (const auto index = parse_number(text); index && *index <= 65535) {
    out.gid_index = *index;
    return ok_status();
  }
  const bool is_numeric =
      !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos;
  const bool is_v6 = text.find(':') != std::string_view::npos;
  std::string host;
  host.append(is_v6 ? "[" : "").append(text).append(is_v6 ? "]" : "");
  const auto address = is_numeric ? parse_net_address(host, 0)
                                  : Result<NetAddress>(Error(ErrorCode::kInvalidArgument, ""));
  if (!address.ok())
    return refusal(key, text, "it is auto, an index as in 3, or an IP address as in 10.0.0.1");
  out.gid_address = address.value();
  return ok_status();
}

// As NCCL numbers them, and in words.
Status set_relaxed(std::string_view key, std::string_view text, VerbsOptions& out) {
  if (text == "off" || text == "0")
    out.relaxed_ordering = RelaxedOrdering::kOff;
  else if (text == "on" || text == "1")
    out.relaxed_ordering = RelaxedOrdering::kOn;
  else if (text == "auto" || text == "2")
    out.relaxed_ordering = RelaxedOrdering::kAuto;
  else
    return refusal(key, text, "it is off (0), on (1) or auto (2)");
  return ok_status();
}

std::uint32_t& number_of(std::string_view name, VerbsOptions& out) {
  if (name == "port") return out.port;
  if (name == "lanes") return out.lanes;
  if (name == "mtu") return out.mtu;
  if (name == "tc") return out.traffic_class;
  if (name == "sl") return out.service_level;
  if (name == "pkey") return out.pkey_index;
  if (name == "timeout") return out.timeout;
  if (name == "retry") return out.retries;
  if (name == "buffers") return out.buffers;
  if (name == "read_from") return out.read_from;
  return out.reads;
}

// `key` is how the user called it: the option, or the variable.
Status set_option(const VerbsOptionInfo& info, std::string_view key, std::string_view text,
                  VerbsOptions& out) {
  if (info.max != 0) {
    const auto value = parse_number(text);
    if (!value || *value < info.min || *value > info.max)
      return refusal(
          key, text,
          "it is a number of " + std::to_string(info.min) + ".." + std::to_string(info.max));
    number_of(info.name, out) = *value;
    return ok_status();
  }
  if (info.name == "transport") return set_transport(key, text, out);
  if (info.name == "cm") return set_meeting(key, text, out);
  if (info.name == "gid") return set_gid(key, text, out);
  if (info.name == "relaxed") return set_relaxed(key, text, out);
  out.filter = parse_hca_filter(text);
  return ok_status();
}

const VerbsOptionInfo* find_option(std::string_view name) {
  const auto* const found =
      std::find_if(kOptions.begin(), kOptions.end(),
                   [name](const VerbsOptionInfo& info) { return info.name == name; });
  return found == kOptions.end() ? nullptr : found;
}

Error unknown(const std::string& key) {
  std::string names;
  for (const VerbsOptionInfo& info : kOptions)
    names.append(names.empty() ? "" : ", ").append(info.name);
  return Error(ErrorCode::kInvalidArgument, "verbs has no option '" + key + "'; it knows " + names);
}

Status set_devices(const Url& url, VerbsOptions& out) {
  for (const std::string& host : url.hosts) {
    if (host == "auto") continue;
    const auto device = parse_device(host);
    if (!device)
      return Error(ErrorCode::kInvalidArgument,
                   "verbs://" + host +
                       " names no device; write DEVICE or DEVICE:PORT, as in verbs://mlx5_0:1 "
                       "(`ibv_devices` lists them), or verbs://auto for the first that is usable");
    for (const DevicePort& other : out.devices)
      if (other.device == device->device && other.port == device->port)
        return Error(ErrorCode::kInvalidArgument, "verbs device " + host + " is named twice");
    out.devices.push_back(*device);
  }
  return ok_status();
}

}  // namespace

std::string_view to_string(VerbsTransport transport) {
  switch (transport) {
    case VerbsTransport::kRc:
      return "rc";
    case VerbsTransport::kUc:
      return "uc";
    case VerbsTransport::kUd:
      break;
  }
  return "ud";
}

std::string DevicePort::to_string() const {
  return port == 0 ? device : device + ":" + std::to_string(port);
}

bool HcaFilter::lets(std::string_view device, std::uint8_t port) const {
  if (names.empty()) return true;
  const bool is_named = std::any_of(names.begin(), names.end(), [&](const DevicePort& one) {
    const bool is_device = is_exact ? device == one.device : device.starts_with(one.device);
    return is_device && (one.port == 0 || one.port == port);
  });
  return is_named != is_exclusion;
}

HcaFilter parse_hca_filter(std::string_view text) {
  HcaFilter out;
  if (text.starts_with('^')) {
    out.is_exclusion = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    out.is_exact = true;
    text.remove_prefix(1);
  }
  for (const std::string_view one : split(text, ','))
    if (const auto device = parse_device(one)) out.names.push_back(*device);
  return out;
}

std::span<const VerbsOptionInfo> verbs_option_infos() {
  return kOptions;
}

Result<VerbsOptions> parse_verbs_options(const Url& url, const Environment& environment) {
  VerbsOptions out;
  for (const VerbsOptionInfo& info : kOptions) {
    if (info.variable.empty()) continue;
    const char* said = environment(info.variable.data());
    if (said == nullptr || *said == '\0') continue;
    if (const Status status = set_option(info, info.variable, said, out); !status.ok())
      return status.error();
  }
  for (const auto& [key, text] : url.options) {
    const VerbsOptionInfo* const info = find_option(key);
    if (info == nullptr) return unknown(key);
    if (const Status status = set_option(*info, key, text, out); !status.ok())
      return status.error();
  }
  if (const Status status = set_devices(url, out); !status.ok()) return status.error();
  if (out.meeting == VerbsMeeting::kRdmaCm && out.transport != VerbsTransport::kRc)
    return refusal("cm", "rdma", "it goes with transport=rc; the others ask each other over UDP");
  return out;
}

}  // namespace spindrift
