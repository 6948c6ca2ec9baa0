#pragma once
// The one loop in which every library is measured, so that only the library differs. A peer is a
// program of its own per library; rank 0 and all others print one JSON line per size.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace spindrift::peers {

enum class Operation : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
};

struct Request {
  Operation operation = Operation::kAllReduce;
  std::vector<std::uint64_t> sizes;  // bytes of the larger buffer of a rank, as nccl-tests counts
  double seconds = 0.1;              // of each size, about
};

// Exits with code 2 and a sentence where the arguments are wrong:
// all_reduce|all_gather|reduce_scatter|broadcast|all_to_all SECONDS BYTES...
Request parse_arguments(int argc, char** argv);

// What a library offers. Elements are floats; sums, where there is one. Errors end the process.
struct Peer {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::function<void()> barrier;
  // The largest of all ranks' values, at all ranks.
  std::function<double(double)> largest;
  // Makes the call for one size; its buffers live as long as it. `elements` is what the call takes:
  // for one rank, or for the part of one rank.
  std::function<std::function<void()>(Operation operation, std::uint64_t elements)> prepare;
};

void measure(const Request& request, const Peer& peer);

// Whether `bytes` are counted over the parts of all ranks.
bool is_split(Operation operation);

}  // namespace spindrift::peers
