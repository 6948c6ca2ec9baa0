#pragma once
// What a network plugin must do, one check each, in the words of the report.
#include <span>
#include <string_view>

#include "tools/nccl/world.h"

namespace spindrift::nccl_check {

struct Case {
  std::string_view name;   // for --case
  std::string_view group;  // heading of the report
  std::string_view holds;  // what is true when it passes
  int ranks = 1;
  void (*run)(Rank&) = nullptr;
  int victim = -1;  // a rank that dies on purpose
};
std::span<const Case> loading_cases();
std::span<const Case> connection_cases();
std::span<const Case> transfer_cases();
std::span<const Case> pattern_cases();
std::span<const Case> trouble_cases();

// Transfers with contents that tell where they came from.
void fill_pattern(unsigned char* data, std::size_t bytes, std::uint64_t seed);
bool has_pattern(const unsigned char* data, std::size_t bytes, std::uint64_t seed);
// A ring step pattern, as Simple moves: every rank sends `steps` buffers to the next one and
// receives as many, `in_flight` at a time; contents are checked. Some steps are empty. `from` sends
// what is received; -1: the previous one does.
void run_ring(Rank& rank, Channel& channel, int steps, std::size_t step_bytes, int in_flight,
              int from = -1);

}  // namespace spindrift::nccl_check
