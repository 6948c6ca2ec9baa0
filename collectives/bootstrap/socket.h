#pragma once
// The few socket calls that server and client of the store share.
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spindrift/address.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift::collectives {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SocketAddress to_socket_address(const NetAddress& address);
NetAddress from_socket_address(const sockaddr_storage& storage);

// Both are non-blocking and closed on exec. The errors carry the address and the system's word.
Result<int> listen_tcp(const NetAddress& address);
// `deadline` by monotonic_now().
Result<int> connect_tcp(const NetAddress& address, Time deadline);
NetAddress local_address_of(int fd);

Time monotonic_now();
// Until `fd` is ready for `events` (POLLIN, POLLOUT); false: the deadline passed.
bool wait_ready(int fd, short events, Time deadline);
std::string system_error(int error);

}  // namespace spindrift::collectives
