#include "spindrift/address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include <absl/strings/str_format.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace spindrift {

namespace {

using AddrInfoPtr = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

template <class... Args>
Error refusal(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return Error(ErrorCode::kInvalidArgument, absl::StrFormat(format, args...));
}

NetAddress from_ipv4(const in_addr& ip) {
  NetAddress address;
  address.family = 4;
  std::memcpy(address.ip.data(), &ip, sizeof(ip));
  return address;
}

NetAddress from_ipv6(const sockaddr_in6& from) {
  NetAddress address;
  address.family = 6;
  address.scope = from.sin6_scope_id;
  std::memcpy(address.ip.data(), &from.sin6_addr, sizeof(from.sin6_addr));
  return address;
}

std::optional<NetAddress> from_info(const addrinfo& info) {
  if (info.ai_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, info.ai_addr, sizeof(ipv4));
    return from_ipv4(ipv4.sin_addr);
  }
  if (info.ai_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, info.ai_addr, sizeof(ipv6));
    return from_ipv6(ipv6);
  }
  return std::nullopt;
}

// 0 or the code that gai_strerror explains.
int look_up(const std::string& host, int flags, std::optional<NetAddress>& out) {
  addrinfo hints{};
  hints.ai_family = (flags & AI_NUMERICHOST) != 0 ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return code;
  const AddrInfoPtr list(found, &freeaddrinfo);
  // The first one: getaddrinfo sorts by what this host can reach (RFC 6724).
  for (const addrinfo* info = list.get(); info != nullptr && !out; info = info->ai_next) {
    out = from_info(*info);
  }
  return out ? 0 : EAI_NONAME;
}

bool is_all(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

Result<NetAddress> parse_host(const std::string& host) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return from_ipv4(ipv4);
  // Never looked up: "10.1" would be taken for 10.0.0.1, "10.0.0.256" would ask a name server.
  if (is_all(host, "0123456789.")) {
    return refusal("'%s' is not an IPv4 address: write four numbers of 0..255, as in 10.0.0.1",
                   host);
  }
  std::optional<NetAddress> address;
  if (host.find(':') != std::string::npos) {
    if (look_up(host, AI_NUMERICHOST, address) == 0) return *address;
    return refusal(
        "'%s' is not an IPv6 address of this host's interfaces: write it as in fd00::1 or "
        "fe80::1%%eth0, and in brackets if a port follows",
        host);
  }
  const int code = look_up(host, 0, address);
  if (code == 0) return *address;
  return refusal("cannot find the host '%s' (%s): check the name, or give its address", host,
                 std::string(gai_strerror(code)));
}

struct HostPort {
  std::string_view host;
  std::optional<std::string_view> port;
};

Result<HostPort> split_host_port(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) {
      return refusal("'%s' lacks the closing bracket: write it as in [fd00::1]:4793", text);
    }
    const std::string_view host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (rest.empty()) return HostPort{.host = host, .port = {}};
    if (rest.starts_with(':')) return HostPort{.host = host, .port = rest.substr(1)};
    return refusal("'%s' has '%s' after the bracket: write it as in [fd00::1]:4793", text, rest);
  }
  const std::size_t colon = text.find(':');
  // More than one colon without brackets is an IPv6 address without a port.
  if (colon == std::string_view::npos || colon != text.rfind(':')) {
    return HostPort{.host = text, .port = {}};
  }
  return HostPort{.host = text.substr(0, colon), .port = text.substr(colon + 1)};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, port);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return port;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Status add_option(std::string_view text, std::string_view option, Url& url) {
  const std::size_t equals = option.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return refusal("'%s' has the option '%s': options are written name=value, joined by '&'", text,
                   option);
  }
  std::string name(option.substr(0, equals));
  for (const auto& known : url.options) {
    if (known.first == name) {
      return refusal("'%s' gives the option '%s' twice: keep one of them", text, name);
    }
  }
  url.options.emplace_back(std::move(name), std::string(option.substr(equals + 1)));
  return ok_status();
}

}  // namespace

bool NetAddress::is_loopback() const {
  if (family == 4) return ip[0] == 127;
  if (family != 6) return false;
  static constexpr std::array<std::uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0,
                                                           0, 0, 0, 0, 0, 0, 0, 1};
  static constexpr std::array<std::uint8_t, 13> kMappedLoopback4{0, 0, 0, 0,    0,    0,  0,
                                                                 0, 0, 0, 0xff, 0xff, 127};
  return ip == kLoopback6 ||
         std::equal(kMappedLoopback4.begin(), kMappedLoopback4.end(), ip.begin());
}

std::string NetAddress::to_string() const {
  if (family == 0) return "(no address)";
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family == 4 ? AF_INET : AF_INET6, ip.data(), text.data(), text.size());
  if (family == 4) return absl::StrFormat("%s:%d", text.data(), port);
  if (scope == 0) return absl::StrFormat("[%s]:%d", text.data(), port);
  return absl::StrFormat("[%s%%%d]:%d", text.data(), scope, port);
}

Result<NetAddress> parse_net_address(std::string_view text, std::uint16_t default_port) {
  const Result<HostPort> parts = split_host_port(text);
  if (!parts.ok()) return parts.error();
  const HostPort& split_text = parts.value();
  if (split_text.host.empty()) {
    return refusal("'%s' names no host: write an address as in 10.0.0.1:4793 or [fd00::1]:4793",
                   text);
  }
  // The resolver takes C strings: a zero inside would hide what follows it.
  if (split_text.host.find('\0') != std::string_view::npos) {
    return refusal("'%s' contains a zero byte: remove it", text);
  }
  std::uint16_t port = default_port;
  if (split_text.port) {
    const std::optional<std::uint16_t> given = parse_port(*split_text.port);
    if (!given) {
      return refusal("'%s' has the port '%s': a port is a number of 0..65535", text,
                     *split_text.port);
    }
    port = *given;
  }
  Result<NetAddress> address = parse_host(std::string(split_text.host));
  if (address.ok()) address.value().port = port;
  return address;
}

Result<Url> parse_url(std::string_view text) {
  const std::size_t separator = text.find("://");
  if (separator == std::string_view::npos || separator == 0) {
    return refusal("'%s' does not begin with a provider: write it as in udp://10.0.0.1:4793", text);
  }
  Url url;
  url.scheme = std::string(text.substr(0, separator));
  std::string_view hosts = text.substr(separator + 3);
  const std::size_t question = hosts.find('?');
  if (question != std::string_view::npos) {
    for (const std::string_view option : split(hosts.substr(question + 1), '&')) {
      const Status status = add_option(text, option, url);
      if (!status.ok()) return status.error();
    }
    hosts = hosts.substr(0, question);
  }
  if (hosts.empty()) return url;
  for (const std::string_view host : split(hosts, ',')) {
    if (host.empty()) {
      return refusal(
          "'%s' has an empty address between commas: remove the comma or add the address", text);
    }
    url.hosts.emplace_back(host);
  }
  return url;
}

}  // namespace spindrift
