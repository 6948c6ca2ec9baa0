#pragma once
// What a udp:// URL may set.
#include <cstdint>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

struct UdpOptions {
  bool has_gso = true;  // super-packets out, where the kernel agrees
  bool has_gro = true;  // super-packets in
  // Payload bytes that should fit, 65536 .. 536870912. The default is half a millisecond of
  // 100 Gb/s, the longest time a running thread is commonly kept from its core.
  std::uint32_t receive_buffer_bytes = 8U << 20U;
  std::uint32_t send_buffer_bytes = 2U << 20U;  // per entropy, 65536 .. 536870912
};

// "?gso=0&gro=0&rcvbuf=BYTES&sndbuf=BYTES"
Result<UdpOptions> parse_udp_options(const Url& url);

}  // namespace spindrift
