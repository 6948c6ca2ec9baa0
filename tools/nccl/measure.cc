#include "tools/nccl/measure.h"

#include <array>
#include <cstdio>
#include <deque>
#include <numeric>

#include <sched.h>
#include <sys/resource.h>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kBufferBytes = 4U << 20U;
constexpr double kWarmup = 0.1;  // of the time measured
constexpr int kLatencyBytes = 8;

// Arena::figures
constexpr int kResult = 0;
constexpr int kProcessorSeconds = 1;  // and 2: of both ranks

MeasureOptions& chosen() {
  static MeasureOptions options;
  return options;
}

void pin(int rank) {
  if (!chosen().is_pinned) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(rank), &set);
  require(::sched_setaffinity(0, sizeof(set), &set) == 0, "cannot run on that processor alone");
}

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

int chosen_device(Net& net) {
  if (!chosen().is_merged) return 0;
  int count = 0;
  require_ok(net.devices(&count), "devices");
  require(net.has_make_device() && count > 1, "there are no devices that could be merged");
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  int merged = 0;
  require_ok(net.make_device(all, &merged), "makeVDevice");
  return merged;
}

struct Ends {
  explicit Ends(Rank& of, bool is_both)
      : rank(of),
        channel(of.open_channel(is_both || of.rank() == 0 ? of.next() : -1,
                                is_both || of.rank() == 1 ? of.previous() : -1, 0,
                                chosen_device(of.net()))) {
    Net& net = rank.net();
    if (channel.send != nullptr)
      require_ok(net.register_memory(channel.send, out.data(), out.size(), &to), "regMr");
    if (channel.recv != nullptr)
      require_ok(net.register_memory(channel.recv, in.data(), in.size(), &from), "regMr");
  }
  void close() {
    Net& net = rank.net();
    rank.barrier();
    if (channel.send != nullptr) require_ok(net.deregister_memory(channel.send, to), "deregMr");
    if (channel.recv != nullptr) require_ok(net.deregister_memory(channel.recv, from), "deregMr");
    rank.close(channel);
    require_ok(net.finalize(), "finalize");
  }

  Rank& rank;
  Channel channel;
  Buffer out{kBufferBytes};
  Buffer in{kBufferBytes};
  void* to = nullptr;
  void* from = nullptr;
};

// Steps through a buffer of 4 MiB, as many in flight as it has; 8 with steps of 512 KiB. A step of
// one byte ends the run.
class Stream {
 public:
  explicit Stream(Ends& ends)
      : ends_(ends), net_(ends.rank.net()), slots_(kBufferBytes / chosen().step_bytes) {
    if (slots_ > nccl::kMaxRequests) slots_ = nccl::kMaxRequests;
    if (slots_ == 0) slots_ = 1;
    is_sent_ = ends.channel.send == nullptr;
    is_received_ = ends.channel.recv == nullptr;
  }
  bool is_over() const { return is_sent_ && is_received_; }
  std::size_t received() const { return received_; }
  void stop() { is_stopping_ = true; }
  void turn() {
    if (!is_sent_) send();
    if (!is_received_) receive();
  }

 private:
  unsigned char* slot(Buffer& buffer, std::size_t number) const {
    return buffer.data() + number % slots_ * chosen().step_bytes;
  }
  void send() {
    if (sends_.size() < slots_ && !is_last_sent_) {
      const std::size_t bytes = is_stopping_ ? 1 : chosen().step_bytes;
      void* request = nullptr;
      require_ok(
          net_.isend(ends_.channel.send, slot(ends_.out, sent_), bytes, 0, ends_.to, &request),
          "isend");
      if (request != nullptr) {
        ++sent_;
        is_last_sent_ = is_stopping_;
        sends_.push_back(request);
      }
    }
    int done = 0;
    if (!sends_.empty()) require_ok(net_.test(sends_.front(), &done, nullptr), "test");
    if (done == 1) sends_.pop_front();
    is_sent_ = is_last_sent_ && sends_.empty();
  }
  void receive() {
    if (receives_.size() < slots_) {
      void* request = nullptr;
      require_ok(net_.irecv(ends_.channel.recv,
                            {{.data = slot(ends_.in, posted_),
                              .capacity = chosen().step_bytes,
                              .tag = 0,
                              .handle = ends_.from}},
                            &request),
                 "irecv");
      if (request != nullptr) {
        ++posted_;
        receives_.push_back(request);
      }
    }
    int done = 0;
    std::array<int, 8> sizes{};
    require_ok(net_.test(receives_.front(), &done, sizes.data()), "test");
    if (done == 0) return;
    receives_.pop_front();
    received_ += static_cast<std::size_t>(sizes[0]);
    is_received_ = sizes[0] == 1 && chosen().step_bytes != 1;
  }

  Ends& ends_;
  Net& net_;
  std::size_t slots_;
  std::deque<void*> sends_;
  std::deque<void*> receives_;
  std::size_t sent_ = 0;
  std::size_t posted_ = 0;
  std::size_t received_ = 0;
  bool is_stopping_ = false;
  bool is_last_sent_ = false;
  bool is_sent_ = false;
  bool is_received_ = false;
};

void bandwidth(Rank& rank, bool is_both) {
  pin(rank.rank());
  Ends ends(rank, is_both);
  Stream stream(ends);
  rank.barrier();
  const double warmup = chosen().seconds * kWarmup;
  const auto begin = steady_clock::now();
  std::size_t bytes_before = 0;
  double began = 0;
  while (!stream.is_over()) {
    for (int i = 0; i < 64; ++i)
      if (!stream.is_over()) stream.turn();
    const double now = seconds_since(begin);
    if (began == 0 && now > warmup) {
      began = now;
      bytes_before = stream.received();
    }
    if (began != 0 && now - began > chosen().seconds) {
      stream.stop();
      if (ends.channel.recv != nullptr && (is_both ? rank.rank() == 0 : true) &&
          rank.arena().figures[kResult].load() == 0)
        rank.arena().figures[kResult].store(static_cast<double>(stream.received() - bytes_before) /
                                            (now - began));
    }
  }
  rank.arena().figures[kProcessorSeconds + rank.rank()].store(processor_seconds());
  ends.close();
}

void one_way(Rank& rank) {
  bandwidth(rank, false);
}
void both_ways(Rank& rank) {
  bandwidth(rank, true);
}

// There and back; half of it is isend, irecv and completion of 8 bytes.
void latency(Rank& rank) {
  pin(rank.rank());
  Ends ends(rank, true);
  Net& net = rank.net();
  rank.barrier();
  constexpr int kTrips = 2000;
  const int warmup = kTrips / 10;
  auto begin = steady_clock::now();
  const auto post = [&] {
    return receive_until_taken(
        net, ends.channel.recv,
        {{.data = ends.in.data(), .capacity = kLatencyBytes, .tag = 0, .handle = ends.from}});
  };
  void* receive = post();
  void* send = nullptr;
  const auto post_send = [&] {
    if (send != nullptr) finish(net, send, nullptr, "a send");
    send = send_until_taken(net, ends.channel.send, ends.out.data(), kLatencyBytes, 0, ends.to);
  };
  for (int i = 0; i < warmup + kTrips; ++i) {
    if (i == warmup) begin = steady_clock::now();
    if (rank.rank() == 0) post_send();
    finish(net, receive, nullptr, "a receive");
    if (i + 1 < warmup + kTrips) receive = post();
    if (rank.rank() == 1) post_send();
  }
  if (rank.rank() == 0) rank.arena().figures[kResult].store(seconds_since(begin) / (2 * kTrips));
  finish(net, send, nullptr, "the last send");
  ends.close();
}

void idle(Rank& rank) {
  pin(rank.rank());
  Ends ends(rank, true);
  Net& net = rank.net();
  void* const receive = receive_until_taken(
      net, ends.channel.recv,
      {{.data = ends.in.data(), .capacity = kLatencyBytes, .tag = 0, .handle = ends.from}});
  rank.barrier();
  if (rank.rank() == 0) {
    constexpr int kCalls = 1'000'000;
    int done = 0;
    const auto begin = steady_clock::now();
    for (int i = 0; i < kCalls; ++i)
      static_cast<void>(net.test(receive, &done, nullptr));
    rank.arena().figures[kResult].store(seconds_since(begin) / kCalls);
    require(done == 0, "a receive that nobody met was done");
  }
  rank.barrier();
  void* const send =
      send_until_taken(net, ends.channel.send, ends.out.data(), kLatencyBytes, 0, ends.to);
  finish(net, receive, nullptr, "a receive");
  finish(net, send, nullptr, "a send");
  ends.close();
}

}  // namespace

int measure(RunOptions run, const MeasureOptions& options) {
  chosen() = options;
  run.ranks = 2;
  const bool is_rate = options.what == "bandwidth" || options.what == "both";
  auto* const body = options.what == "bandwidth" ? one_way
                     : options.what == "both"    ? both_ways
                     : options.what == "latency" ? latency
                                                 : idle;
  const Outcome outcome = run_ranks(run, body);
  if (outcome.kind != Outcome::Kind::kHeld) throw Failed(outcome.words);
  const double processor =
      outcome.figures[kProcessorSeconds] + outcome.figures[kProcessorSeconds + 1];
  if (is_rate)
    std::printf(
        "{\"measure\":\"%s\",\"version\":%d,\"gigabytes_per_second\":%.4f,"
        "\"processor_seconds\":%.4f}\n",
        options.what.c_str(), run.version, outcome.figures[kResult] / 1e9, processor);
  else
    std::printf("{\"measure\":\"%s\",\"version\":%d,\"nanoseconds\":%.1f}\n", options.what.c_str(),
                run.version, outcome.figures[kResult] * 1e9);
  return 0;
}

}  // namespace spindrift::nccl_check
