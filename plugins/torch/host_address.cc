#include "plugins/torch/host_address.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <absl/strings/str_format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/bootstrap/interfaces.h"
#include "collectives/bootstrap/socket.h"

namespace spindrift::torch_plugin {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Equal for processes that reach one another by the loopback address.
std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> network{};
  const ssize_t length = ::readlink("/proc/self/ns/net", network.data(), network.size() - 1);
  return boot + "/" +
         std::string(network.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

// No packet is sent: the kernel only looks up the route.
std::optional<NetAddress> own_address_towards(const NetAddress& other) {
  const int family = other.family == 6 ? AF_INET6 : AF_INET;
  const int fd = ::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  const collectives::SocketAddress to = collectives::to_socket_address(other);
  std::optional<NetAddress> own;
  if (::connect(fd, to.get(), to.length) == 0) own = collectives::local_address_of(fd);
  ::close(fd);
  return own;
}

Result<std::string> routed_address() {
  std::optional<NetAddress> own;
  if (const auto master = variable("MASTER_ADDR")) {
    const Result<NetAddress> address = parse_net_address(*master, kDefaultPort);
    if (address.ok()) own = own_address_towards(address.value());
  }
  // The master's own address is often a loopback one in its host file.
  if (!own || own->is_loopback()) {
    const std::vector<NetAddress> all = collectives::own_addresses(false);
    if (all.empty()) {
      return Error(ErrorCode::kUnavailable,
                   "this host has no address that others could reach; set SPINDRIFT_ADDRESS, such "
                   "as udp://10.0.0.1:0");
    }
    own = all.front();
  }
  own->port = 0;
  return "udp://" + own->to_string();
}

}  // namespace

Result<HostAddress> agree_on_address(Store& store, const std::string& name, std::uint32_t rank,
                                     std::uint32_t ranks, Duration timeout) {
  const auto key = [&](std::uint32_t of) { return absl::StrFormat("%s/host/%d", name, of); };
  const std::string own = host_identity();
  if (Status status = store.set(key(rank), own); !status.ok()) return status.error();
  HostAddress found{.address = {}, .local_ranks = 0};
  for (std::uint32_t other = 0; other < ranks; ++other) {
    const Result<std::string> host = store.get(key(other), timeout);
    if (!host.ok()) {
      return Error(host.error().code(),
                   absl::StrFormat("rank %d waits for rank %d, which did not make its process "
                                   "group: %s",
                                   rank, other, host.error().message()));
    }
    if (host.value() == own) ++found.local_ranks;
  }
  if (const auto given = variable("SPINDRIFT_ADDRESS")) {
    found.address = *given;
    return found;
  }
  if (found.local_ranks == ranks) {
    found.address = "udp://127.0.0.1:0";
    return found;
  }
  Result<std::string> routed = routed_address();
  if (!routed.ok()) return routed.error();
  found.address = std::move(routed).value();
  return found;
}

}  // namespace spindrift::torch_plugin
