// MPI in the common loop. Compiled once for each MPI library of this host.
#include <memory>
#include <vector>

#include <mpi.h>

#include "bench/peers/harness.h"

namespace {

using spindrift::peers::Operation;

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
};

std::function<void()> prepare(Operation operation, std::uint64_t elements, int ranks) {
  const std::uint64_t all = elements * static_cast<std::uint64_t>(ranks);
  auto* const buffers = new Buffers{std::vector<float>(all), std::vector<float>(all)};
  const auto count = static_cast<int>(elements);
  // One at a time: those of the size before go when the next are made.
  static std::unique_ptr<Buffers> current;
  current.reset(buffers);
  float* const input = buffers->input.data();
  float* const output = buffers->output.data();
  return [=] {
    switch (operation) {
      case Operation::kAllReduce:
        MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Operation::kAllGather:
        MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
      case Operation::kReduceScatter:
        MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Operation::kBroadcast:
        MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
      case Operation::kAllToAll:
        MPI_Alltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    }
  };
}

}  // namespace

int main(int argc, char** argv) {
  const spindrift::peers::Request request = spindrift::peers::parse_arguments(argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  spindrift::peers::measure(
      request,
      {.rank = static_cast<std::uint32_t>(rank),
       .ranks = static_cast<std::uint32_t>(ranks),
       .barrier = [] { MPI_Barrier(MPI_COMM_WORLD); },
       .largest =
           [](double own) {
             double all = 0;
             MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
             return all;
           },
       .prepare = [ranks](Operation operation,
                          std::uint64_t elements) { return prepare(operation, elements, ranks); }});
  MPI_Finalize();
  return 0;
}
