#pragma once
// Where the contract suite of fabrics runs: pairs that reach each other. A new fabric adds a class
// here, or a file of its own with its fabric_worlds().
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

namespace spindrift {

// Two fabrics that reach each other.
struct FabricPair {
  virtual ~FabricPair() = default;
  // Lets something happen between them, where that takes time.
  virtual void pass_time() {}
  // ... until nothing is under way.
  virtual void rest() {}
  // Cuts a lane, or mends it; false: that cannot be done here.
  virtual bool set_lane(std::uint16_t /*lane*/, bool /*is_up*/) { return false; }
  // Where the second can listen; empty: anywhere.
  std::string address;
  std::unique_ptr<MessageFabric> a;
  std::unique_ptr<MessageFabric> b;
};

struct FabricWorld {
  std::string name;
  std::function<std::unique_ptr<FabricPair>()> make;
};
inline void PrintTo(const FabricWorld& world, std::ostream* out) {
  *out << world.name;
}
std::vector<FabricWorld> fabric_worlds();

}  // namespace spindrift
