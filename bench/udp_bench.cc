// Two endpoints on two threads over loopback UDP, and in the same run, turn about, plain sockets
// that carry the same packets with no protocol above them. The counter `ratio` compares the two.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include "spindrift/open.h"

#include "bench/plain_sockets.h"

namespace spindrift::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint32_t kMessageBytes = 1U << 20U;
constexpr std::uint32_t kHeaderBytes = 56;  // of a WRITE's packet
constexpr std::uint64_t kChunkMessages = 32;
constexpr std::uint64_t kDepth = 8;
constexpr std::uint64_t kChunkPings = 200;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Two connected endpoints.
class EndpointPair {
 public:
  explicit EndpointPair(const ConnectOptions& options)
      : source_(kMessageBytes, std::byte{7}), target_(kMessageBytes) {
    error_ = open(options);
  }
  const std::string& error() const { return error_; }
  Endpoint& b() { return *b_; }

  bool write(std::uint64_t messages) {
    std::uint64_t posted = 0;
    for (std::uint64_t done = 0; done < messages;) {
      while (posted < messages && posted < done + kDepth) {
        const Sge piece = sge_of(from_, 0, kMessageBytes);
        const WorkRequest work{.conn = at_a_,
                               .kind = OpKind::kWrite,
                               .local = {&piece, 1},
                               .remote_key = to_.remote.key};
        if (a_->post({&work, 1}).accepted != 1) return false;
        ++posted;
      }
      std::array<Completion, kDepth> completions{};
      const std::size_t count = a_->poll(completions);
      for (std::size_t i = 0; i < count; ++i)
        if (completions[i].status != OpStatus::kOk) return false;
      done += count;
    }
    return true;
  }
  // One SEND there and one back.
  bool ping() {
    if (!post_receive_and_send(*a_, at_a_, from_)) return false;
    Completion done{};
    while (a_->poll({&done, 1}) == 0) {
    }
    return done.kind == OpKind::kReceive && done.status == OpStatus::kOk;
  }
  // The other side's turn: a SEND for each that came.
  void answer() {
    std::array<Completion, 8> done{};
    const std::size_t count = b_->poll(done);
    for (std::size_t i = 0; i < count; ++i)
      if (done[i].kind == OpKind::kReceive && done[i].status == OpStatus::kOk)
        static_cast<void>(post_receive_and_send(*b_, at_b_, to_));
  }

 private:
  // Enough that the peer need not be told of each new one at once.
  static bool post_receives(Endpoint& endpoint, ConnId conn, const MemoryRegion& region) {
    const Sge piece = sge_of(region, 0, 8);
    const WorkRequest receive{.conn = conn, .kind = OpKind::kReceive, .local = {&piece, 1}};
    const std::vector<WorkRequest> work(32, receive);
    return endpoint.post(work).accepted == work.size();
  }
  static bool post_receive_and_send(Endpoint& endpoint, ConnId conn, const MemoryRegion& region) {
    const Sge piece = sge_of(region, 0, 8);
    const std::array<WorkRequest, 2> work{
        WorkRequest{.conn = conn, .kind = OpKind::kReceive, .local = {&piece, 1}},
        WorkRequest{
            .conn = conn, .kind = OpKind::kSend, .is_unsignaled = true, .local = {&piece, 1}}};
    return endpoint.post(work).accepted == work.size();
  }
  std::string open(const ConnectOptions& options) {
    auto opened_a = open_endpoint("udp://127.0.0.1:0");
    auto opened_b = open_endpoint("udp://127.0.0.1:0");
    if (!opened_a.ok()) return opened_a.error().message();
    if (!opened_b.ok()) return opened_b.error().message();
    a_ = std::move(opened_a.value());
    b_ = std::move(opened_b.value());
    const auto listener = b_->listen("udp://127.0.0.1:0");
    if (!listener.ok()) return listener.error().message();
    auto conn = a_->connect(b_->local_addresses().front(), options);
    if (!conn.ok()) return conn.error().message();
    at_a_ = conn.value();
    std::string error = wait_until_open(options);
    if (!error.empty()) return error;
    auto from = a_->register_memory(source_, Access::kLocalWrite);
    auto to = b_->register_memory(target_, kAllAccess);
    if (!from.ok() || !to.ok()) return "memory was not registered";
    from_ = from.value();
    to_ = to.value();
    if (!post_receives(*a_, at_a_, from_) || !post_receives(*b_, at_b_, to_))
      return "the RECEIVEs were not accepted";
    return {};
  }
  std::string wait_until_open(const ConnectOptions& options) {
    const auto start = SteadyClock::now();
    for (int open = 0; open < 2;) {
      if (seconds_since(start) > 10) return "the endpoints did not connect";
      for (Endpoint* endpoint : {a_.get(), b_.get()}) {
        endpoint->progress();
        ConnEvent event{};
        if (endpoint->poll_events({&event, 1}) == 0) continue;
        if (event.kind == ConnEvent::Kind::kRequest) {
          at_b_ = event.conn;
          const Status accepted = b_->accept(event.conn, options);
          if (!accepted.ok()) return accepted.error().message();
        } else if (event.kind == ConnEvent::Kind::kEstablished) {
          ++open;
        } else {
          return endpoint->last_error(event.conn);
        }
      }
    }
    return {};
  }

  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  MemoryRegion from_{};
  MemoryRegion to_{};
  ConnId at_a_{};
  ConnId at_b_{};
  std::string error_;
};

// The process's own, whatever its threads did since.
const cpu_set_t& allowed_processors() {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    static_cast<void>(sched_getaffinity(0, sizeof set, &set));
    return set;
  }();
  return allowed;
}

// Two threads that poll must not share a processor: each would wait for the other's time slice.
void take_processor(bool is_first) {
  const cpu_set_t& allowed = allowed_processors();
  int chosen = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE && !(is_first && chosen >= 0); ++cpu)
    if (CPU_ISSET(cpu, &allowed)) chosen = cpu;
  if (chosen < 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof one, &one));
}

// The receiving side's thread. It runs one thing at a time, or sleeps.
class Peer {
 public:
  enum class Task : std::uint8_t { kNone, kProgress, kAnswer, kReceivePlain, kAnswerPlain, kEnd };

  Peer(EndpointPair& pair, PlainSockets& plain)
      : pair_(pair), plain_(plain), thread_([this] {
          take_processor(false);
          run();
        }) {}
  ~Peer() {
    give(Task::kEnd);
    thread_.join();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void give(Task task) {
    task_.store(task);
    task_.notify_one();
  }

 private:
  void run() {
    for (;;)
      switch (task_.load(std::memory_order_acquire)) {
        case Task::kNone:
          task_.wait(Task::kNone);
          break;
        case Task::kProgress:
          pair_.b().progress();
          break;
        case Task::kAnswer:
          pair_.answer();
          break;
        case Task::kReceivePlain:
          plain_.receive_some();
          break;
        case Task::kAnswerPlain:
          plain_.answer_some();
          break;
        case Task::kEnd:
          return;
      }
  }
  EndpointPair& pair_;
  PlainSockets& plain_;
  std::atomic<Task> task_ = Task::kNone;
  std::thread thread_;
};

void bandwidth(benchmark::State& state, const ConnectOptions& options) {
  EndpointPair pair(options);
  const std::uint32_t mtu = options.max_payload_mtu;
  PlainSockets plain(mtu + kHeaderBytes);
  if (!pair.error().empty() || !plain.is_open()) {
    state.SkipWithError(("not connected: " + pair.error()).c_str());
    return;
  }
  Peer peer(pair, plain);
  const std::uint64_t plain_packets = kChunkMessages * kMessageBytes / mtu;
  double ours_seconds = 0;
  double plain_seconds = 0;
  for (auto _ : state) {
    peer.give(Peer::Task::kProgress);
    auto start = SteadyClock::now();
    const bool is_written = pair.write(kChunkMessages);
    const double seconds = seconds_since(start);
    peer.give(Peer::Task::kReceivePlain);
    start = SteadyClock::now();
    const bool is_streamed = plain.stream(plain_packets);
    plain_seconds += seconds_since(start);
    if (!is_written || !is_streamed) {
      state.SkipWithError(is_written ? "plain packets were lost" : "a WRITE failed");
      break;
    }
    state.SetIterationTime(seconds);
    ours_seconds += seconds;
  }
  const auto chunks = static_cast<double>(state.iterations());
  const double ours = chunks * kChunkMessages * kMessageBytes / ours_seconds;
  const double limit = chunks * static_cast<double>(plain_packets * mtu) / plain_seconds;
  state.SetBytesProcessed(
      static_cast<std::int64_t>(state.iterations() * kChunkMessages * kMessageBytes));
  state.counters["GB_per_s"] = ours / 1e9;
  state.counters["plain_GB_per_s"] = limit / 1e9;
  state.counters["ratio"] = ours / limit;
}

void latency(benchmark::State& state, const ConnectOptions& options) {
  EndpointPair pair(options);
  PlainSockets plain(8);
  if (!pair.error().empty() || !plain.is_open()) {
    state.SkipWithError(("not connected: " + pair.error()).c_str());
    return;
  }
  Peer peer(pair, plain);
  double ours_seconds = 0;
  double plain_seconds = 0;
  bool is_ok = true;
  for (auto _ : state) {
    peer.give(Peer::Task::kAnswer);
    auto start = SteadyClock::now();
    for (std::uint64_t i = 0; is_ok && i < kChunkPings; ++i)
      is_ok = pair.ping();
    const double seconds = seconds_since(start);
    peer.give(Peer::Task::kAnswerPlain);
    start = SteadyClock::now();
    for (std::uint64_t i = 0; is_ok && i < kChunkPings; ++i)
      is_ok = plain.ping();
    plain_seconds += seconds_since(start);
    if (!is_ok) {
      state.SkipWithError("a message was lost");
      break;
    }
    state.SetIterationTime(seconds);
    ours_seconds += seconds;
  }
  const auto half_trips = static_cast<double>(2 * kChunkPings * state.iterations());
  state.counters["half_round_trip_ns"] = ours_seconds * 1e9 / half_trips;
  state.counters["plain_half_round_trip_ns"] = plain_seconds * 1e9 / half_trips;
  state.counters["ratio"] = ours_seconds / plain_seconds;
}

void add_all() {
  for (const std::uint32_t mtu : {1408U, 4096U, 8832U, 16256U})
    for (const std::uint32_t paths : {1U, 16U})
      for (const std::uint32_t burst : {0U, 16U, 32U, 64U, 128U}) {
        const std::string name = "write_1M/mtu:" + std::to_string(mtu) +
                                 "/paths:" + std::to_string(paths) +
                                 "/burst:" + std::to_string(burst) + "K";
        ConnectOptions options;
        options.path_count = paths;
        options.burst_bytes = burst * 1024;
        options.max_payload_mtu = mtu;
        benchmark::RegisterBenchmark(
            name.c_str(), [options](benchmark::State& state) { bandwidth(state, options); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
  benchmark::RegisterBenchmark("send_8/ping_pong",
                               [](benchmark::State& state) { latency(state, ConnectOptions{}); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace spindrift::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  spindrift::bench::take_processor(true);
  spindrift::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
