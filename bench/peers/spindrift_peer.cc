// Spindrift in the common loop. The launcher's variables say who this is, SPINDRIFT_PROVIDER what
// is measured.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "spindrift/bootstrap.h"
#include "spindrift/open.h"

#include "bench/peers/harness.h"

namespace {

using namespace spindrift;
using peers::Operation;

constexpr Duration kPatience = std::chrono::seconds(60);

[[noreturn]] void die(const Error& error) {
  std::fprintf(stderr, "spindrift_peer: %s\n", error.message().c_str());
  std::_Exit(1);
}

Collective collective_of(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return Collective::kAllReduce;
    case Operation::kAllGather:
      return Collective::kAllGather;
    case Operation::kReduceScatter:
      return Collective::kReduceScatter;
    case Operation::kBroadcast:
      return Collective::kBroadcast;
    case Operation::kAllToAll:
      return Collective::kAllToAll;
  }
  return Collective::kAllReduce;
}

struct Buffers {
  std::vector<float> input;
  std::vector<float> output;
};

std::function<void()> prepare(Communicator& communicator, Operation operation,
                              std::uint64_t elements) {
  static std::unique_ptr<Buffers> current;
  communicator.forget_memory();
  const std::uint64_t all = elements * communicator.ranks();
  current = std::make_unique<Buffers>(Buffers{std::vector<float>(all), std::vector<float>(all)});
  const bool is_in_place = operation == Operation::kBroadcast;
  const CollectiveCall call{.collective = collective_of(operation),
                            .input = is_in_place ? current->output.data() : current->input.data(),
                            .output = current->output.data(),
                            .count = elements};
  return [&communicator, call] {
    if (const Status status = communicator.run(call); !status.ok()) die(status.error());
  };
}

}  // namespace

int main(int argc, char** argv) {
  const peers::Request request = peers::parse_arguments(argc, argv);
  const auto job = Job::join();
  if (!job.ok()) die(job.error());
  const Launch& launch = job.value()->launch();
  GroupOptions wanted;
  wanted.communicator.rank = launch.rank;
  wanted.communicator.ranks = launch.ranks;
  const Result<OpenedGroup> group = open_group(job.value()->store(), wanted);
  if (!group.ok()) die(group.error());
  Communicator& communicator = *group.value().communicator;
  peers::measure(request, {.rank = launch.rank,
                           .ranks = launch.ranks,
                           .barrier =
                               [&] {
                                 if (const Status status = communicator.barrier(); !status.ok())
                                   die(status.error());
                               },
                           .largest =
                               [&](double own) {
                                 double all = 0;
                                 const Status status =
                                     communicator.all_reduce({.input = &own,
                                                              .output = &all,
                                                              .count = 1,
                                                              .type = DataType::kFloat64,
                                                              .op = ReduceOp::kMax});
                                 if (!status.ok()) die(status.error());
                                 return all;
                               },
                           .prepare =
                               [&](Operation operation, std::uint64_t elements) {
                                 return prepare(communicator, operation, elements);
                               }});
  communicator.close();
  (void)job.value()->leave(kPatience);
  return 0;
}
