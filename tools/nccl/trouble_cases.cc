// Peers that die or fall silent, and communicators that are torn down in the middle.
#include <chrono>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kBytes = 1U << 20U;

// What one side has under way: a receive nobody meets, and sends as far as they are taken.
struct UnderWay {
  Buffer out{kBytes};
  Buffer in{kBytes};
  void* to = nullptr;
  void* from = nullptr;
  void* receive = nullptr;
  std::vector<void*> sends;
};

void start(Rank& rank, Channel& channel, UnderWay& work) {
  Net& net = rank.net();
  require_ok(net.register_memory(channel.send, work.out.data(), kBytes, &work.to), "regMr");
  require_ok(net.register_memory(channel.recv, work.in.data(), kBytes, &work.from), "regMr");
  work.receive = receive_until_taken(
      net, channel.recv,
      {{.data = work.in.data(), .capacity = kBytes, .tag = 0, .handle = work.from}});
}

void abort_in_flight(Rank& rank) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  Net& net = rank.net();
  UnderWay work;
  start(rank, channel, work);
  rank.barrier();
  for (int i = 0; i < 1000; ++i) {
    void* request = nullptr;
    if (net.isend(channel.send, work.out.data(), kBytes, 0, work.to, &request) != nccl::kSuccess)
      break;
  }
  // As ncclCommAbort does: registrations go first, then the connections, and nobody asks the peer.
  require_ok(net.deregister_memory(channel.send, work.to), "deregMr with a send under way");
  require_ok(net.deregister_memory(channel.recv, work.from), "deregMr with a receive under way");
  rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

// Returns the seconds until the error.
double wait_for_error(Rank& rank, Channel& channel, UnderWay& work) {
  Net& net = rank.net();
  const auto begin = steady_clock::now();
  NcclResult result = nccl::kSuccess;
  int done = 0;
  while (result == nccl::kSuccess && done == 0)
    result = net.test(work.receive, &done, nullptr);
  const std::chrono::duration<double> passed = steady_clock::now() - begin;
  require(result == nccl::kRemoteError,
          "test returned " + std::to_string(result) + " where ncclRemoteError (6) is due");
  for (int i = 0; i < 3; ++i)
    require(net.test(work.receive, &done, nullptr) == nccl::kRemoteError,
            "the error went away when it was asked for again");
  void* request = nullptr;
  require(net.irecv(channel.recv,
                    {{.data = work.in.data(), .capacity = kBytes, .tag = 0, .handle = work.from}},
                    &request) != nccl::kSuccess,
          "irecv was taken on a failed connection");
  require(said().warnings > 0, "a lost peer was reported without a word");
  return passed.count();
}

void end(Rank& rank, Channel& channel, UnderWay& work) {
  Net& net = rank.net();
  require_ok(net.deregister_memory(channel.send, work.to), "deregMr after an error");
  require_ok(net.deregister_memory(channel.recv, work.from), "deregMr after an error");
  rank.close(channel);
  require_ok(net.finalize(), "finalize after an error");
}

void lose_peer(Rank& rank, int signal) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  run_ring(rank, channel, 8, 65536, 4);
  UnderWay work;
  start(rank, channel, work);
  rank.barrier();
  if (rank.rank() == 1) {
    ::raise(signal);
    return;
  }
  rank.arena().figures[0].store(wait_for_error(rank, channel, work));
  end(rank, channel, work);
  ::kill(rank.arena().pids[1].load(), SIGKILL);
}

void peer_killed(Rank& rank) {
  lose_peer(rank, SIGKILL);
}

void peer_stopped(Rank& rank) {
  lose_peer(rank, SIGSTOP);
}

// Nothing is wrong, the peer has only stopped answering: closing must not wait for it.
void close_stopped(Rank& rank) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  run_ring(rank, channel, 8, 65536, 4);
  rank.barrier();
  if (rank.rank() == 1) {
    ::raise(SIGSTOP);
    return;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begin = steady_clock::now();
  rank.close(channel);
  require_ok(rank.net().finalize(), "finalize");
  const std::chrono::duration<double> passed = steady_clock::now() - begin;
  rank.arena().figures[0].store(passed.count());
  require(passed < std::chrono::seconds(3), "closing waited for a peer that does not answer");
  ::kill(rank.arena().pids[1].load(), SIGKILL);
}

// One side has all its data and goes; the other must not take that for an error.
void close_early(Rank& rank) {
  for (int i = 0; i < 20; ++i) {
    Channel channel = rank.open_channel(rank.next(), rank.previous(), i);
    run_ring(rank, channel, 16, 32768, 8);
    rank.close(channel);
  }
  require_ok(rank.net().finalize(), "finalize");
}

constexpr Case kCases[] = {
    {"close_early", "trouble", "a side that is done may close before the other has tested", 2,
     close_early},
    {"abort", "trouble", "connections close with requests under way, memory first", 2,
     abort_in_flight},
    {"killed", "trouble", "a killed peer is ncclRemoteError from test(), for ever, with a warning",
     2, peer_killed, 1},
    {"stopped", "trouble", "so is one that falls silent", 2, peer_stopped, 1},
    {"close_stopped", "trouble", "closing does not wait for a peer that does not answer", 2,
     close_stopped, 1},
};

}  // namespace

std::span<const Case> trouble_cases() {
  return kCases;
}

}  // namespace spindrift::nccl_check
