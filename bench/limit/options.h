#pragma once
// The command line of udp_limit, checked, and the description of a test that its client sends to
// its server.
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "spindrift/result.h"

namespace spindrift::limit {

enum class Role : std::uint8_t { kLocal, kServer, kClient };
enum class Test : std::uint8_t { kStream, kPingPong };

// What both sides must agree on.
struct TestPlan {
  Test test = Test::kStream;
  std::uint32_t packet_bytes = 0;   // of each datagram
  std::uint32_t payload_bytes = 0;  // that count, of packet_bytes
  std::uint32_t sockets = 1;        // of the sender
  std::uint32_t packets_per_super = 0;
  std::uint64_t window_bytes = 0;  // under way at most
  std::uint64_t memory_bytes = 0;  // that each side reads from or writes to, round and round
  std::uint32_t warmup_ms = 0;
  std::uint32_t duration_ms = 0;
};

struct Options {
  Role role = Role::kLocal;
  std::string address = "127.0.0.1:4799";  // to listen at, or of the server
  bool serves_once = false;
  int sender_cpu = 0;    // -1: not bound
  int receiver_cpu = 1;  // -1: not bound
  bool has_json = false;
  TestPlan plan{};
};

// Exits by itself after --help (0) and after wrong arguments (2).
Options parse_command_line(int argc, char** argv);

nlohmann::json to_json(const TestPlan& plan);
Result<TestPlan> parse_plan(const nlohmann::json& object);

}  // namespace spindrift::limit
