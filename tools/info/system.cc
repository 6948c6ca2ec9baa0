#include "tools/info/system.h"

#include <charconv>
#include <fstream>
#include <map>
#include <optional>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>

namespace spindrift::tools {
namespace {

using nlohmann::json;

// What udp asks for where nobody says otherwise.
constexpr std::uint64_t kWantedReceiveBytes = 8ULL << 20;
constexpr std::uint64_t kWantedSendBytes = 2ULL << 20;
// A socket per path, 256 paths, and several rails.
constexpr std::uint64_t kWantedDescriptors = 4096;

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const std::string line = first_line_of(path);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return value;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::uint64_t resource_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur;
}

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* at = nullptr;
  if (address.sa_family == AF_INET) {
    at = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (address.sa_family == AF_INET6) {
    at = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  if (at == nullptr || inet_ntop(address.sa_family, at, text.data(), text.size()) == nullptr) {
    return {};
  }
  return text.data();
}

json interface_entry(const std::string& name, unsigned flags) {
  json out = {{"name", name}, {"is_up", (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0}};
  const std::string folder = "/sys/class/net/" + name;
  if (const auto mtu = number_in(folder + "/mtu")) out["mtu"] = *mtu;
  // The kernel says -1 where a speed makes no sense or the link is down.
  const auto speed = number_in(folder + "/speed");
  if (speed && *speed > 0) out["speed_mbps"] = *speed;
  out["addresses"] = json::array();
  return out;
}

}  // namespace

json describe_cpu() {
  json features = json::object();
#if defined(__x86_64__)
  features["sse4.2"] = __builtin_cpu_supports("sse4.2") != 0;
  features["avx2"] = __builtin_cpu_supports("avx2") != 0;
  features["avx512f"] = __builtin_cpu_supports("avx512f") != 0;
  features["vpclmulqdq"] = __builtin_cpu_supports("vpclmulqdq") != 0;
#endif
  return {{"model", cpu_model()}, {"features", features}};
}

json to_json(const Limit& limit) {
  const bool is_enough = limit.value >= limit.wanted;
  const auto text = [](std::uint64_t value) {
    return value == kUnlimited ? json("unlimited") : json(value);
  };
  return {{"name", limit.name},
          {"value", text(limit.value)},
          {"wanted", text(limit.wanted)},
          {"is_enough", is_enough},
          {"why", limit.why},
          {"remedy", is_enough ? "" : limit.remedy}};
}

json describe_limits() {
  json out = json::array();
  out.push_back(to_json(
      {.name = "net.core.rmem_max",
       .value = static_cast<std::uint64_t>(number_in("/proc/sys/net/core/rmem_max").value_or(0)),
       .wanted = kWantedReceiveBytes,
       .why = "receive socket buffer of udp, in bytes; too little drops packets under load",
       .remedy = "sysctl -w net.core.rmem_max=8388608 (and in /etc/sysctl.d to keep it)"}));
  out.push_back(to_json(
      {.name = "net.core.wmem_max",
       .value = static_cast<std::uint64_t>(number_in("/proc/sys/net/core/wmem_max").value_or(0)),
       .wanted = kWantedSendBytes,
       .why = "send socket buffer of udp, in bytes",
       .remedy = "sysctl -w net.core.wmem_max=2097152 (and in /etc/sysctl.d to keep it)"}));
  out.push_back(to_json({.name = "nofile",
                         .value = resource_limit(RLIMIT_NOFILE),
                         .wanted = kWantedDescriptors,
                         .why = "open files; udp has a socket per path and rail",
                         .remedy = "ulimit -n 4096, or LimitNOFILE= of the service"}));
  out.push_back(to_json({.name = "memlock",
                         .value = resource_limit(RLIMIT_MEMLOCK),
                         .wanted = 0,
                         .why = "locked memory in bytes; udp locks none",
                         .remedy = ""}));
  return out;
}

json describe_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return json::array();
  std::map<std::string, json> by_name;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const std::string name = at->ifa_name;
    if (by_name.count(name) == 0) by_name[name] = interface_entry(name, at->ifa_flags);
    const std::string address = at->ifa_addr == nullptr ? "" : address_text(*at->ifa_addr);
    if (!address.empty()) by_name[name]["addresses"].push_back(address);
  }
  freeifaddrs(list);
  json out = json::array();
  for (auto& [name, entry] : by_name)
    out.push_back(std::move(entry));
  return out;
}

}  // namespace spindrift::tools
