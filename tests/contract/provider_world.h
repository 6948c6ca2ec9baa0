#pragma once
// Where the provider contract suite runs: hosts of one provider on one network. A new provider adds
// a class here or a file of its own, and a line in provider_worlds().
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "spindrift/provider.h"

namespace spindrift::testing {

class ProviderWorld {
 public:
  virtual ~ProviderWorld() = default;
  // A fresh host. The world outlives it.
  virtual std::unique_ptr<PacketIo> open(std::size_t host) = 0;
  // The address of a rail of a host (hosts 0..1, rails 0..1), port 0.
  virtual NetAddress address(std::size_t host, std::size_t rail) = 0;
  // An address that no host has.
  virtual NetAddress foreign_address() = 0;
  // Lets packets under way arrive; returns at once when there are none.
  virtual void settle(PacketIo& receiver) = 0;
};

struct ProviderWorldInfo {
  std::string name;
  std::function<std::unique_ptr<ProviderWorld>()> make;
  // Empty, or why this machine cannot run it.
  std::function<std::string()> reason_to_skip = [] { return std::string(); };
};
inline void PrintTo(const ProviderWorldInfo& world, std::ostream* out) {
  *out << world.name;
}
std::vector<ProviderWorldInfo> provider_worlds();

}  // namespace spindrift::testing
