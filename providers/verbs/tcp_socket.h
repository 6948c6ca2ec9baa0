#pragma once
// The TCP connections by which the two sides of a connection find each other. Nothing here blocks.
// Internal to providers/verbs.
#include <cstddef>
#include <span>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "transport/base/unique_fd.h"

namespace spindrift {

// Port 0: a free one; `local` says which afterwards.
Result<UniqueFd> listen_tcp(NetAddress& local);
// Under way: writable when it is over, and then dial_error() says how.
Result<UniqueFd> dial_tcp(const NetAddress& remote);
int dial_error(int socket);
// What came in; nothing: nobody has called.
struct TcpCaller {
  UniqueFd socket{};
  NetAddress from{};
};
TcpCaller accept_tcp(int listener);

NetAddress local_address(int socket);
// All of them or none: what is sent here is little, and comes seldom.
bool send_tcp(int socket, std::span<const std::byte> bytes);
enum class TcpGot { kNothing, kBytes, kEnd };
// Appends what there is.
TcpGot receive_tcp(int socket, std::vector<std::byte>& out);

}  // namespace spindrift
