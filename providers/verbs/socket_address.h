#pragma once
// Addresses as sockets take them. Internal to providers/verbs.
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>

#include "spindrift/address.h"

namespace spindrift {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

inline SocketAddress to_socket_address(const NetAddress& from) {
  SocketAddress out;
  if (from.family == 4) {
    auto& to = reinterpret_cast<sockaddr_in&>(out.storage);
    to.sin_family = AF_INET;
    to.sin_port = htons(from.port);
    std::memcpy(&to.sin_addr, from.ip.data(), 4);
    out.bytes = sizeof(to);
  } else {
    auto& to = reinterpret_cast<sockaddr_in6&>(out.storage);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(from.port);
    to.sin6_scope_id = from.scope;
    std::memcpy(&to.sin6_addr, from.ip.data(), 16);
    out.bytes = sizeof(to);
  }
  return out;
}

inline NetAddress to_net_address(const SocketAddress& from) {
  NetAddress out;
  if (from.storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from.storage);
    out.family = 4;
    out.port = ntohs(in.sin_port);
    std::memcpy(out.ip.data(), &in.sin_addr, 4);
  } else if (from.storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(from.storage);
    out.family = 6;
    out.port = ntohs(in.sin6_port);
    out.scope = in.sin6_scope_id;
    std::memcpy(out.ip.data(), &in.sin6_addr, 16);
  }
  return out;
}

}  // namespace spindrift
