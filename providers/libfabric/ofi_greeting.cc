#include "providers/libfabric/ofi_greeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <type_traits>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace spindrift {
namespace {

static_assert(std::is_trivially_copyable_v<OfiGreeting>);
static_assert(sizeof(OfiGreeting) == 2288, "no padding that would differ between compilers");

// A host that has lost its power says nothing: after so long its connection ends.
constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress to_socket_address(const NetAddress& address) {
  SocketAddress out;
  if (address.family == 6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.storage);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    to.sin6_scope_id = address.scope;
    std::memcpy(&to.sin6_addr, address.ip.data(), sizeof(to.sin6_addr));
    out.bytes = sizeof(sockaddr_in6);
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(out.storage);
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    std::memcpy(&to.sin_addr, address.ip.data(), sizeof(to.sin_addr));
    out.bytes = sizeof(sockaddr_in);
  }
  return out;
}

NetAddress to_net_address(const sockaddr* from) {
  NetAddress out;
  if (from->sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(*from);
    out.family = 6;
    out.port = ntohs(in.sin6_port);
    out.scope = in.sin6_scope_id;
    std::memcpy(out.ip.data(), &in.sin6_addr, sizeof(in.sin6_addr));
  } else if (from->sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(*from);
    out.family = 4;
    out.port = ntohs(in.sin_port);
    std::memcpy(out.ip.data(), &in.sin_addr, sizeof(in.sin_addr));
  }
  return out;
}

Error refused(const std::string& what, int error) {
  const bool is_nobody = error == ECONNREFUSED;
  return Error(is_nobody ? ErrorCode::kNotFound : ErrorCode::kIo,
               what + ": " + std::system_category().message(error) +
                   (is_nobody ? "; no process listens there" : ""));
}

void set(int fd, int level, int option, int value) {
  static_cast<void>(::setsockopt(fd, level, option, &value, sizeof(value)));
}

void watch_over(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

UniqueFd open_socket(const NetAddress& address, int type) {
  return UniqueFd(
      ::socket(address.family == 6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

void OfiGreeting::set_hello(std::span<const std::byte> bytes) {
  hello_bytes = static_cast<std::uint32_t>(std::min(bytes.size(), hello.size()));
  std::copy_n(bytes.begin(), hello_bytes, hello.begin());
}

void OfiRailCard::set_address(std::span<const std::byte> bytes) {
  address_bytes = static_cast<std::uint32_t>(std::min(bytes.size(), address.size()));
  std::copy_n(bytes.begin(), address_bytes, address.begin());
}

void OfiGreeting::set_provider(const std::string& name) {
  std::copy_n(name.begin(), std::min(name.size(), provider.size() - 1), provider.begin());
}

bool OfiGreeting::is_sound() const {
  return magic == kMagic && kind >= OfiGreetingKind::kCall && kind <= OfiGreetingKind::kFarewell &&
         hello_bytes <= kFabricHelloBytes && rails <= kMostOfiRails && provider.back() == 0 &&
         std::all_of(rail.begin(), rail.end(), [](const OfiRailCard& card) {
           return card.address_bytes <= kOfiAddressBytes;
         });
}

NetAddress OfiTalk::peer() const {
  SocketAddress name;
  if (::getpeername(socket_.get(), name.get(), &name.bytes) != 0) return {};
  return to_net_address(name.get());
}

Status OfiTalk::finish_connecting() {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return refused("connecting", error);
  return ok_status();
}

void OfiTalk::send(const OfiGreeting& greeting) {
  const auto bytes = std::as_bytes(std::span(&greeting, 1));
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  static_cast<void>(flush());
}

bool OfiTalk::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // An end is found by who receives.
    if (sent <= 0) return false;
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  return true;
}

OfiTalk::Got OfiTalk::receive(OfiGreeting& out) {
  for (;;) {
    const ssize_t bytes = ::recv(socket_.get(), incoming_.data() + received_,
                                 incoming_.size() - received_, MSG_DONTWAIT);
    if (bytes == 0) return Got::kEnd;
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOTCONN) return Got::kNothing;
      trouble_ = std::system_category().message(errno);
      return Got::kEnd;
    }
    received_ += static_cast<std::size_t>(bytes);
    if (received_ < incoming_.size()) continue;
    received_ = 0;
    std::memcpy(&out, incoming_.data(), sizeof(out));
    return out.is_sound() ? Got::kGreeting : Got::kNonsense;
  }
}

Result<UniqueFd> listen_tcp(const NetAddress& address) {
  UniqueFd fd = open_socket(address, SOCK_STREAM);
  if (!fd.is_open()) return refused(address.to_string(), errno);
  set(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const SocketAddress name = to_socket_address(address);
  if (::bind(fd.get(), name.get(), name.bytes) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return refused("listening at TCP " + address.to_string(), errno);
  return fd;
}

Result<UniqueFd> connect_tcp(const NetAddress& address) {
  UniqueFd fd = open_socket(address, SOCK_STREAM);
  if (!fd.is_open()) return refused(address.to_string(), errno);
  watch_over(fd.get());
  const SocketAddress name = to_socket_address(address);
  if (::connect(fd.get(), name.get(), name.bytes) != 0 && errno != EINPROGRESS)
    return refused("TCP " + address.to_string(), errno);
  return fd;
}

UniqueFd accept_tcp(int listener) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.is_open()) watch_over(fd.get());
  return fd;
}

NetAddress bound_address(int socket) {
  SocketAddress name;
  if (::getsockname(socket, name.get(), &name.bytes) != 0) return {};
  return to_net_address(name.get());
}

Result<NetAddress> source_towards(const NetAddress& remote) {
  const UniqueFd fd = open_socket(remote, SOCK_DGRAM);
  NetAddress to = remote;
  if (to.port == 0) to.port = kDefaultPort;
  const SocketAddress name = to_socket_address(to);
  if (!fd.is_open() || ::connect(fd.get(), name.get(), name.bytes) != 0)
    return refused("a way to " + remote.to_string(), errno);
  NetAddress source = bound_address(fd.get());
  source.port = 0;
  return source;
}

NetAddress any_own_address(std::uint8_t family) {
  NetAddress out;
  out.family = family;
  if (family == 4)
    out.ip = {127, 0, 0, 1};
  else
    out.ip[15] = 1;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return out;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    NetAddress address = to_net_address(one->ifa_addr);
    if (address.family != family || address.scope != 0) continue;
    return address;
  }
  return out;
}

}  // namespace spindrift
