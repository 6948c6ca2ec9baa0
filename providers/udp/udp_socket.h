#pragma once
// UDP sockets as this provider needs them, and their addresses. Internal to providers/udp.
#include <cstdint>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "spindrift/address.h"
#include "spindrift/config.h"
#include "spindrift/result.h"

#include "transport/base/unique_fd.h"

namespace spindrift {

// Large enough for both families, and smaller than sockaddr_storage: there is one per packet.
struct SocketAddress {  // NOLINT: the union is initialised by its longest member
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6{};
  };
  socklen_t length = 0;
};
SocketAddress to_socket_address(const NetAddress& address);
NetAddress to_net_address(const SocketAddress& address);

// IP and UDP headers.
inline std::uint32_t header_bytes(const NetAddress& address) {
  return address.family == 4 ? 28 : 48;
}

struct UdpRail {
  NetAddress local{};  // with the receive port
  UniqueFd receive{};
  std::vector<UniqueFd> send{};  // by entropy
  bool has_gso = false;
};

// DSCP 0, ECT(0).
inline constexpr int kUsualTrafficClass = 2;

// Bound to `local`; says which of busy, not ours, no descriptors it was.
Result<UniqueFd> open_receive_socket(const NetAddress& local, const UdpOptions& options);
// Bound to the address of `local` and a port of the kernel's choice.
Result<UniqueFd> open_send_socket(const NetAddress& local, const UdpOptions& options);
bool set_gro(int fd);
NetAddress local_address_of(int fd);
// Asks for room for `wanted` bytes and says what SO_RCVBUF became: twice the bytes granted.
std::uint64_t set_receive_buffer(int fd, std::uint32_t wanted_bytes);
// Packets the kernel dropped because the socket's buffer was full.
std::uint64_t dropped_by_kernel(int fd);

}  // namespace spindrift
