#pragma once
// What a PacketIo also is when its devices can read payload from registered memory by themselves.
#include <cstddef>
#include <span>

#include "spindrift/memory.h"

namespace spindrift {

// Set-up calls of the thread that calls the PacketIo: they may allocate and call the kernel.
class RegionUser {
 public:
  virtual ~RegionUser() = default;
  // Memory is registered. It may, but need not, be used: payload from elsewhere is sent as well.
  virtual void add_region(LocalKey region, std::span<std::byte> bytes) = 0;
  // It is given up; released() has passed all packets with payload from there.
  virtual void remove_region(LocalKey region) = 0;
};

}  // namespace spindrift
