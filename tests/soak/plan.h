#pragma once
// What one seed stands for: sizes, options, faults and how often what happens. Everything else that
// a run decides comes from the same generator.
#include <cstdint>
#include <string>

#include "spindrift/config.h"

#include "providers/memory/memory_network.h"
#include "providers/wrap/fault_spec.h"
#include "transport/base/rng.h"

namespace spindrift::soak {

struct Plan {
  std::uint32_t hosts = 2;
  std::uint32_t rails = 1;
  std::uint32_t links = 1;   // connections at a time
  std::uint32_t steps = 50;  // decisions in the safety phase
  std::uint32_t max_bytes = 4096;
  std::uint32_t slots = 8;  // messages of a kind outstanding per direction
  MemoryNetworkConfig network{};
  bool copies_on_send = true;
  std::uint16_t max_burst_packets = 1;
  EndpointConfig endpoint{};
  ConnectOptions options{};
  FaultConfig faults{};  // of every host, each with its own seed
  // Out of 1000 decisions.
  std::uint32_t closes = 0;
  std::uint32_t aborts = 0;
  std::uint32_t restarts = 0;
  std::uint32_t freezes = 0;
  std::uint32_t blackouts = 0;
  std::uint32_t mistakes = 0;
  std::uint32_t rejects = 0;     // ... out of 1000 requests
  std::uint32_t deadlines = 0;   // ... out of 1000 operations
  std::uint32_t unsignaled = 0;  // ... out of 1000 operations
  bool has_shared_queue = false;
};

Plan make_plan(Rng& rng);
// One line for people.
std::string describe(const Plan& plan);

}  // namespace spindrift::soak
