// Gloo over TCP in the common loop, by the calls that PyTorch makes of it. Ranks meet in the folder
// GLOO_MEETING; RANK and WORLD_SIZE say who this is.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/peers/harness.h"

namespace {

using spindrift::peers::Operation;

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
};

using HalvingDoubling = gloo::ReduceScatterHalvingDoubling<float>;

template <class Context>
std::function<void()> prepare(const Context& context, Operation operation, std::uint64_t elements) {
  static std::unique_ptr<Buffers> current;
  static std::unique_ptr<HalvingDoubling> reduce_scatter;
  const auto ranks = static_cast<std::uint64_t>(context->size);
  current = std::make_unique<Buffers>(
      Buffers{std::vector<float>(elements * ranks), std::vector<float>(elements * ranks)});
  float* const input = current->input.data();
  float* const output = current->output.data();
  if (operation == Operation::kReduceScatter) {
    // There is only the older interface, which works in place.
    reduce_scatter = std::make_unique<HalvingDoubling>(
        context, std::vector<float*>{input}, static_cast<int>(elements * ranks),
        std::vector<int>(ranks, static_cast<int>(elements)));
  }
  return [=] {
    switch (operation) {
      case Operation::kAllReduce: {
        gloo::AllreduceOptions options(context);
        options.setInput(input, elements);
        options.setOutput(output, elements);
        options.setReduceFunction(
            static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
        break;
      }
      case Operation::kAllGather: {
        gloo::AllgatherOptions options(context);
        options.setInput(input, elements);
        options.setOutput(output, elements * ranks);
        gloo::allgather(options);
        break;
      }
      case Operation::kBroadcast: {
        gloo::BroadcastOptions options(context);
        options.setOutput(output, elements);
        options.setRoot(0);
        gloo::broadcast(options);
        break;
      }
      case Operation::kAllToAll: {
        gloo::AlltoallOptions options(context);
        options.setInput(input, elements * ranks);
        options.setOutput(output, elements * ranks);
        gloo::alltoall(options);
        break;
      }
      case Operation::kReduceScatter:
        reduce_scatter->run();
        break;
    }
  };
}

}  // namespace

int main(int argc, char** argv) {
  const spindrift::peers::Request request = spindrift::peers::parse_arguments(argc, argv);
  // NOLINTBEGIN(concurrency-mt-unsafe): only read, before any thread
  const char* rank = std::getenv("RANK");
  const char* ranks = std::getenv("WORLD_SIZE");
  const char* folder = std::getenv("GLOO_MEETING");
  // NOLINTEND(concurrency-mt-unsafe)
  if (rank == nullptr || ranks == nullptr || folder == nullptr) {
    std::fprintf(stderr, "gloo_peer: set RANK, WORLD_SIZE and GLOO_MEETING\n");
    return 2;
  }
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  gloo::rendezvous::FileStore store(folder);
  const auto context =
      std::make_shared<gloo::rendezvous::Context>(std::atoi(rank), std::atoi(ranks));
  context->connectFullMesh(store, device);
  spindrift::peers::measure(
      request, {.rank = static_cast<std::uint32_t>(context->rank),
                .ranks = static_cast<std::uint32_t>(context->size),
                .barrier =
                    [&context] {
                      gloo::BarrierOptions options(context);
                      gloo::barrier(options);
                    },
                .largest =
                    [&context](double own) {
                      gloo::AllreduceOptions options(context);
                      options.setOutput(&own, 1);
                      options.setReduceFunction(
                          static_cast<void (*)(void*, const void*, const void*, std::size_t)>(
                              &gloo::max<double>));
                      gloo::allreduce(options);
                      return own;
                    },
                .prepare =
                    [&context](Operation operation, std::uint64_t elements) {
                      return prepare(context, operation, elements);
                    }});
  return 0;
}
