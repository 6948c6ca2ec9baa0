#pragma once
// What lies between a simulated host's endpoint and its NICs, as the host sees it.
#include <cstdint>

#include "sim/packet_pool.h"
#include "sim/time.h"

namespace spindrift::sim {

class HostMedium {
 public:
  virtual ~HostMedium() = default;
  // From the network; the packet is the medium's from now on, to be given back.
  virtual void deliver(std::uint32_t nic, PacketId packet) = 0;
  // Payload is carried from now on, or only counted. It is carried at first: connections are opened
  // by packets whose payload the endpoints read.
  virtual void carry_payload(bool does) = 0;
  // Since the last call, the endpoint could not do something that it wants to do: turns at this
  // instant are in vain.
  virtual bool take_is_stuck() = 0;
  // At the end of a turn: on_room() is wanted when the host's `rail`th NIC has sent what it has.
  virtual bool wants_room(std::uint32_t rail) const = 0;
  // Whether the endpoint would find something new now.
  virtual bool has_news() const = 0;
  // When on_time() is due next; kEndOfTime: never.
  virtual Picoseconds next_due() const = 0;
  virtual void on_time() = 0;
  // The NICs may have room.
  virtual void on_room() = 0;
};

}  // namespace spindrift::sim
