#pragma once
// A transfer over real sockets whose congestion control is recorded: two endpoints in this process,
// one thread for both.
#include <cstdint>
#include <string>

#include "spindrift/result.h"

namespace spindrift::simtool {

struct RecordOptions {
  std::string file{};                         // what was there is replaced
  std::string congestion_control = "nscc";    // with parameters, as connections take it
  std::uint64_t bytes = 64U << 20U;           // that are transferred
  std::string address = "udp://127.0.0.1:0";  // of this host, where the receiver listens
  std::string faults{};                       // on what the sender sends and receives, "loss=1%"
};
struct Recorded {
  std::uint64_t events = 0;
  std::uint64_t left_out = 0;
  std::string algorithm{};
  double seconds = 0;  // that the transfer took
};
// kInvalidArgument, kUnsupported, kNotFound: what was asked for cannot be; others: it failed.
Result<Recorded> record_transfer(const RecordOptions& options);

}  // namespace spindrift::simtool
