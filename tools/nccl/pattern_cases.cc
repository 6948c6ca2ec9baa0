// NCCL's own patterns: rings, trees, all-to-all, and receivers that read flags inside the buffer.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

constexpr std::size_t kSimpleBytes = 4194304;  // NCCL's buffers of one connection
constexpr std::size_t kStepBytes = kSimpleBytes / 8;
constexpr std::size_t kLlBytes = 524288;
constexpr std::size_t kLl128Bytes = 4915200;
constexpr std::size_t kLine = 128;
constexpr int kStepsInFlight = 8;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 27U);
}

struct Posted {
  void* request = nullptr;
  int step = 0;
};

// Every seventh step has nothing to move.
std::size_t bytes_of(int step, std::size_t step_bytes) {
  return step % 7 == 3 ? 0 : step_bytes - static_cast<std::size_t>(step % 5) * (step_bytes / 16);
}

std::uint64_t seed_of(int rank, int step) {
  return static_cast<std::uint64_t>(rank) * 1000003 + static_cast<std::uint64_t>(step);
}

}  // namespace

void fill_pattern(unsigned char* data, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = mix(seed + i);
    std::memcpy(data + i, &word, std::min<std::size_t>(8, bytes - i));
  }
}

bool has_pattern(const unsigned char* data, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = mix(seed + i);
    if (std::memcmp(data + i, &word, std::min<std::size_t>(8, bytes - i)) != 0) return false;
  }
  return true;
}

// NOLINTNEXTLINE(readability-function-size): all of it says what the ring is
void run_ring(Rank& rank, Channel& channel, int steps, std::size_t step_bytes, int in_flight,
              int from) {
  const int sender = from < 0 ? rank.previous() : from;
  Net& net = rank.net();
  const auto slots = static_cast<std::size_t>(in_flight);
  Buffer out(step_bytes * slots);
  Buffer in(step_bytes * slots * 2);
  void* out_handle = nullptr;
  void* in_handle = nullptr;
  require_ok(net.register_memory(channel.send, out.data(), out.size(), &out_handle), "regMr");
  require_ok(net.register_memory(channel.recv, in.data(), in.size(), &in_handle), "regMr");
  std::deque<Posted> sends;
  std::deque<Posted> receives;
  int sent = 0;
  int posted = 0;
  int received = 0;
  while (sent < steps || received < steps || !sends.empty()) {
    if (posted < steps && posted - received < in_flight) {  // twice the room, as NCCL posts
      const std::size_t at = static_cast<std::size_t>(posted % in_flight) * step_bytes * 2;
      void* request = reinterpret_cast<void*>(std::uintptr_t{0xdead});
      require_ok(
          net.irecv(
              channel.recv,
              {{.data = in.data() + at, .capacity = step_bytes * 2, .tag = 0, .handle = in_handle}},
              &request),
          "irecv");
      if (request != nullptr) receives.push_back({request, posted++});
    }
    if (sent < steps && static_cast<int>(sends.size()) < in_flight) {
      const std::size_t at = static_cast<std::size_t>(sent % in_flight) * step_bytes;
      const std::size_t bytes = bytes_of(sent, step_bytes);
      fill_pattern(out.data() + at, bytes, seed_of(rank.rank(), sent));
      void* request = nullptr;
      require_ok(net.isend(channel.send, out.data() + at, bytes, 0, out_handle, &request), "isend");
      if (request != nullptr) sends.push_back({request, sent++});
    }
    for (std::deque<Posted>* queue : {&sends, &receives}) {
      if (queue->empty()) continue;
      int done = 0x5a5a5a5a;
      std::array<int, 8> got{};
      require_ok(net.test(queue->front().request, &done, got.data()), "test");
      if (done == 0) continue;
      const int step = queue->front().step;
      queue->pop_front();
      if (queue == &sends) continue;
      const std::size_t bytes = bytes_of(step, step_bytes);
      const std::size_t at = static_cast<std::size_t>(step % in_flight) * step_bytes * 2;
      require(got[0] == static_cast<int>(bytes), "a step's size is wrong");
      require(has_pattern(in.data() + at, bytes, seed_of(sender, step)),
              "the contents of step " + std::to_string(step) + " are wrong");
      ++received;
    }
  }
  require_ok(net.deregister_memory(channel.send, out_handle), "deregMr");
  require_ok(net.deregister_memory(channel.recv, in_handle), "deregMr");
}

namespace {

void ring(Rank& rank) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  run_ring(rank, channel, 60, kStepBytes, kStepsInFlight);
  rank.barrier();
  rank.close(channel);
  require_ok(rank.net().finalize(), "finalize");
}

// Up to the root and down again: every rank has a channel each way to its parent.
void tree(Rank& rank) {
  std::vector<Channel> channels(static_cast<std::size_t>(rank.ranks()));
  for (int child = 1; child < rank.ranks(); ++child) {
    const int parent = (child - 1) / 2;
    int peer = -1;
    if (rank.rank() == child) peer = parent;
    if (rank.rank() == parent) peer = child;
    channels[static_cast<std::size_t>(child)] = rank.open_channel(peer, peer, child);
  }
  Net& net = rank.net();
  Buffer buffer(kSimpleBytes);
  for (int round = 0; round < 20; ++round) {
    for (int child = 1; child < rank.ranks(); ++child) {
      const Channel& channel = channels[static_cast<std::size_t>(child)];
      if (channel.send == nullptr) continue;
      const int peer = rank.rank() == child ? (child - 1) / 2 : child;
      void* out = nullptr;
      void* in = nullptr;
      require_ok(net.register_memory(channel.send, buffer.data(), 65536, &out), "regMr");
      require_ok(net.register_memory(channel.recv, buffer.data() + 65536, 65536, &in), "regMr");
      fill_pattern(buffer.data(), 65536, seed_of(rank.rank(), round));
      void* const receive = receive_until_taken(
          net, channel.recv,
          {{.data = buffer.data() + 65536, .capacity = 65536, .tag = 0, .handle = in}});
      void* const send = send_until_taken(net, channel.send, buffer.data(), 65536, 0, out);
      finish(net, receive, nullptr, "a tree's receive");
      finish(net, send, nullptr, "a tree's send");
      require(has_pattern(buffer.data() + 65536, 65536, seed_of(peer, round)), "wrong contents");
      require_ok(net.deregister_memory(channel.send, out), "deregMr");
      require_ok(net.deregister_memory(channel.recv, in), "deregMr");
    }
  }
  rank.barrier();
  for (Channel& channel : channels)
    rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

void all_to_all(Rank& rank) {
  std::vector<Channel> channels;
  for (int shift = 1; shift < rank.ranks(); ++shift)
    for (int copy = 0; copy < 4; ++copy)
      channels.push_back(rank.open_channel((rank.rank() + shift) % rank.ranks(),
                                           (rank.rank() + rank.ranks() - shift) % rank.ranks(),
                                           shift * 4 + copy));
  Net& net = rank.net();
  constexpr std::size_t kBytes = 131072;
  Buffer out(kBytes * channels.size());
  Buffer in(kBytes * channels.size());
  std::vector<void*> handles;
  std::vector<void*> requests;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    void* to = nullptr;
    void* from = nullptr;
    require_ok(net.register_memory(channels[i].send, out.data(), out.size(), &to), "regMr");
    require_ok(net.register_memory(channels[i].recv, in.data(), in.size(), &from), "regMr");
    handles.push_back(to);
    handles.push_back(from);
    fill_pattern(out.data() + i * kBytes, kBytes, seed_of(rank.rank(), static_cast<int>(i)));
    requests.push_back(receive_until_taken(
        net, channels[i].recv,
        {{.data = in.data() + i * kBytes, .capacity = kBytes, .tag = 0, .handle = from}}));
  }
  for (std::size_t i = 0; i < channels.size(); ++i)
    requests.push_back(send_until_taken(net, channels[i].send, out.data() + i * kBytes, kBytes, 0,
                                        handles[2 * i]));
  for (void* const request : requests)
    finish(net, request, nullptr, "a transfer to all");
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const int shift = 1 + static_cast<int>(i) / 4;
    const int from = (rank.rank() + rank.ranks() - shift) % rank.ranks();
    require(has_pattern(in.data() + i * kBytes, kBytes, seed_of(from, static_cast<int>(i))),
            "wrong contents");
  }
  rank.barrier();
  for (std::size_t i = 0; i < channels.size(); ++i) {
    require_ok(net.deregister_memory(channels[i].send, handles[2 * i]), "deregMr");
    require_ok(net.deregister_memory(channels[i].recv, handles[2 * i + 1]), "deregMr");
    rank.close(channels[i]);
  }
  require_ok(net.finalize(), "finalize");
}

std::uint32_t load32(const unsigned char* at, std::memory_order order) {
  auto* word = reinterpret_cast<std::uint32_t*>(const_cast<unsigned char*>(at));
  return std::atomic_ref<std::uint32_t>(*word).load(order);
}

std::uint64_t load64(const unsigned char* at, std::memory_order order) {
  auto* word = reinterpret_cast<std::uint64_t*>(const_cast<unsigned char*>(at));
  return std::atomic_ref<std::uint64_t>(*word).load(order);
}

void store32(unsigned char* at, std::uint32_t value) {
  std::memcpy(at, &value, sizeof(value));
}

// A kernel reads its flags on another processor than the proxy's: here a thread does.
void with_reader(Rank& rank, std::size_t buffer_bytes, std::size_t message_bytes,
                 void (*write)(unsigned char*, std::size_t, std::uint32_t),
                 bool (*read)(const unsigned char*, std::size_t, std::uint32_t,
                              const std::atomic<bool>&)) {
  Channel channel = rank.open_channel(rank.next(), rank.previous(), 0);
  Net& net = rank.net();
  Buffer out(buffer_bytes);
  Buffer in(buffer_bytes);
  void* to = nullptr;
  void* from = nullptr;
  require_ok(net.register_memory(channel.send, out.data(), out.size(), &to), "regMr");
  require_ok(net.register_memory(channel.recv, in.data(), in.size(), &from), "regMr");
  constexpr std::uint32_t kRounds = 300;
  std::atomic<std::uint32_t> expected{0};
  std::atomic<std::uint32_t> seen{0};
  std::atomic<bool> is_torn{false};
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over) {
      const std::uint32_t flag = expected.load(std::memory_order_acquire);
      if (flag == seen.load(std::memory_order_relaxed)) continue;
      if (!read(in.data(), message_bytes, flag, is_over)) is_torn = true;
      seen.store(flag, std::memory_order_release);
    }
  });
  const auto exchange = [&] {
    for (std::uint32_t flag = 1; flag <= kRounds && !is_torn; ++flag) {
      void* const receive = receive_until_taken(
          net, channel.recv,
          {{.data = in.data(), .capacity = message_bytes, .tag = 0, .handle = from}});
      expected.store(flag, std::memory_order_release);
      write(out.data(), message_bytes, flag);
      void* const send = send_until_taken(net, channel.send, out.data(), message_bytes, 0, to);
      finish(net, receive, nullptr, "a receive whose flags are read");
      finish(net, send, nullptr, "a send with flags");
      while (seen.load(std::memory_order_acquire) != flag && !is_torn)
        std::this_thread::yield();
      rank.barrier();
    }
  };
  std::exception_ptr trouble;
  try {
    exchange();
  } catch (...) {
    trouble = std::current_exception();
  }
  is_over = true;
  reader.join();
  if (trouble) std::rethrow_exception(trouble);
  require(!is_torn, "a flag became visible before the data that it stands for");
  rank.barrier();
  require_ok(net.deregister_memory(channel.send, to), "deregMr");
  require_ok(net.deregister_memory(channel.recv, from), "deregMr");
  rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

// LL: 8-byte stores of 4 bytes of data and 4 of flag.
void write_ll(unsigned char* data, std::size_t bytes, std::uint32_t flag) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    store32(data + i, static_cast<std::uint32_t>(i) * 31 + flag * 7);
    store32(data + i + 4, flag);
  }
}
bool read_ll(const unsigned char* data, std::size_t bytes, std::uint32_t flag,
             const std::atomic<bool>& is_over) {
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t word = 0;
    do {
      word = load64(data + i, std::memory_order_acquire);
      if (is_over) return true;
    } while (static_cast<std::uint32_t>(word >> 32U) != flag);
    if (static_cast<std::uint32_t>(word) != static_cast<std::uint32_t>(i) * 31 + flag * 7)
      return false;
  }
  return true;
}
void low_latency(Rank& rank) {
  with_reader(rank, kLlBytes, kLlBytes / 8, write_ll, read_ll);
}

// LL128: 120 bytes of data and 8 of flag per line of 128.
void write_ll128(unsigned char* data, std::size_t bytes, std::uint32_t flag) {
  for (std::size_t line = 0; line < bytes; line += kLine) {
    for (std::size_t i = 0; i < kLine - 8; i += 4)
      store32(data + line + i, static_cast<std::uint32_t>(line + i) * 31 + flag * 7);
    const std::uint64_t word = flag;
    std::memcpy(data + line + kLine - 8, &word, sizeof(word));
  }
}
bool read_ll128(const unsigned char* data, std::size_t bytes, std::uint32_t flag,
                const std::atomic<bool>& is_over) {
  for (std::size_t line = 0; line < bytes; line += kLine) {
    while (load64(data + line + kLine - 8, std::memory_order_acquire) != flag)
      if (is_over) return true;
    for (std::size_t i = 0; i < kLine - 8; i += 4)
      if (load32(data + line + i, std::memory_order_relaxed) !=
          static_cast<std::uint32_t>(line + i) * 31 + flag * 7)
        return false;
  }
  return true;
}
void low_latency_128(Rank& rank) {
  with_reader(rank, kLl128Bytes, kLl128Bytes / 8 / kLine * kLine, write_ll128, read_ll128);
}

// Connections are made by one thread of a communicator while another moves data.
void two_threads(Rank& rank) {
  Channel first = rank.open_channel(rank.next(), rank.previous(), 0);
  std::exception_ptr trouble;
  std::thread progress([&] {
    try {
      run_ring(rank, first, 200, 65536, kStepsInFlight);
    } catch (...) {
      trouble = std::current_exception();
    }
  });
  std::vector<Channel> more;
  for (int i = 1; i <= 16; ++i)
    more.push_back(rank.open_channel(rank.next(), rank.previous(), i));
  progress.join();
  if (trouble) std::rethrow_exception(trouble);
  rank.barrier();
  rank.close(first);
  for (Channel& channel : more)
    rank.close(channel);
  require_ok(rank.net().finalize(), "finalize");
}

constexpr Case kCases[] = {
    {"ring", "patterns", "a ring of Simple steps: 512 KiB, 8 in flight, some empty, all intact", 3,
     ring},
    {"tree", "patterns", "a tree, up and down", 4, tree},
    {"all_to_all", "patterns", "all-to-all over 12 connections per rank", 4, all_to_all},
    {"ll", "patterns", "LL: 8-byte stores are never torn, flags are read before test()", 2,
     low_latency},
    {"ll128", "patterns", "LL128: the flag of a 128-byte line is never seen before its data", 2,
     low_latency_128},
    {"threads", "patterns", "one thread connects while another moves data", 2, two_threads},
};

}  // namespace

std::span<const Case> pattern_cases() {
  return kCases;
}

}  // namespace spindrift::nccl_check
