#pragma once
// What sender and receiver of an endpoint share: its ports and its rails. Internal to
// providers/dpdk.
#include <cstdint>
#include <memory>
#include <vector>

#include "spindrift/address.h"

#include "providers/dpdk/mailbox.h"
#include "providers/dpdk/port.h"

namespace spindrift {

// An endpoint's share of a port.
struct PortUse {
  explicit PortUse(Port* shared) : port(shared), queue(shared->next_queue()) {}
  PortUse(const PortUse&) = delete;
  PortUse& operator=(const PortUse&) = delete;
  ~PortUse() {
    port->give_up_claims(mailbox);
    port->release();
  }
  Port* port;
  std::uint16_t queue;
  Mailbox mailbox{};
};

struct DpdkRail {
  PortUse* use = nullptr;
  NetAddress address{};  // with its receive port
  std::uint16_t first_entropy_port = 0;
  std::uint16_t entropies = 0;  // opened
};

}  // namespace spindrift
