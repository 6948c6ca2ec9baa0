// What one chunk costs in the message engine: an offer that is fetched over many lanes, with a path
// policy, congestion control and reads that end out of order, over a fabric in memory that copies
// nothing. Both endpoints and the fabric run on one thread; fabric_alone/ is what to take off.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "spindrift/open.h"

#include "tests/paths/allocation_count.h"
#include "tests/transport/scripted_fabric.h"

namespace spindrift::bench {
namespace {

constexpr std::uint32_t kMessageBytes = 1U << 20U;
constexpr std::size_t kUnderWay = 8;  // messages

struct Case {
  std::string path_selector = "reps";
  std::string congestion_control = "nscc";
  std::uint32_t chunk_bytes = 65536;
  std::uint16_t lanes = 16;
  // Of the world: all that is under way ends meanwhile, so that turns without work do not count.
  Duration turn = std::chrono::microseconds(20);
};

test::ScriptedOptions fabric_options(const Case& one) {
  return {.lanes = one.lanes, .reads_per_lane = 64, .copies = false};
}

// Two connected endpoints, a writer and a reader, and their memory.
class Stream {
 public:
  explicit Stream(const Case& one)
      : case_(one), net_(fabric_options(one)), from_(kMessageBytes), to_(kMessageBytes) {
    auto b_fabric = net_.make();
    a_ = Endpoint::create(net_.make(), {.seed = 1}, builtin_registry()).value();
    b_ = Endpoint::create(std::move(b_fabric), {.seed = 2}, builtin_registry()).value();
    ConnectOptions options{.congestion_control = one.congestion_control,
                           .path_selector = one.path_selector,
                           .path_count = one.lanes,
                           .chunk_bytes = one.chunk_bytes};
    options.silence_limit = std::chrono::hours(1);
    options.silence_limit_passive = std::chrono::hours(1);
    if (!b_->listen("scripted://").ok()) return;
    auto conn = a_->connect(b_->local_addresses().at(0), options);
    if (!conn.ok()) return;
    conn_ = conn.value();
    for (int i = 0; i < 1000 && !is_open_; ++i) {
      ConnEvent event;
      if (b_->take_event(ConnEvent::Kind::kRequest, event))
        static_cast<void>(b_->accept(event.conn, options));
      is_open_ = a_->take_event(ConnEvent::Kind::kEstablished, event);
      turn();
    }
    source_ = a_->register_memory(from_, kAllAccess).value();
    target_ = b_->register_memory(to_, kAllAccess).value();
  }
  bool is_open() const { return is_open_; }
  // False: a message failed.
  bool run(std::size_t messages) {
    const std::size_t end = done_ + messages;
    while (done_ < end) {
      while (posted_ < done_ + kUnderWay && post())
        ++posted_;
      turn();
      Completion done[16];
      for (std::size_t n = a_->poll(done); n != 0; n = a_->poll(done))
        for (std::size_t i = 0; i < n; ++i, ++done_)
          if (done[i].status != OpStatus::kOk) return false;
    }
    return true;
  }

 private:
  bool post() {
    const Sge piece = sge_of(source_, 0, kMessageBytes);
    const WorkRequest work{.conn = conn_,
                           .kind = OpKind::kWrite,
                           .local = {&piece, 1},
                           .remote_key = target_.remote.key};
    return a_->post({&work, 1}).accepted == 1;
  }
  void turn() {
    a_->progress();
    b_->progress();
    net_.advance_to(net_.now() + case_.turn);
  }

  Case case_;
  test::ScriptedNet net_;
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
  ConnId conn_{};
  MemoryRegion source_;
  MemoryRegion target_;
  std::size_t posted_ = 0;
  std::size_t done_ = 0;
  bool is_open_ = false;
};

void report(benchmark::State& state, double chunks, std::uint64_t allocations) {
  if (allocations != 0) state.SkipWithError("memory was allocated");
  state.counters["ns_per_chunk"] =
      benchmark::Counter(chunks / 1e9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = static_cast<double>(allocations) / chunks;
}

void fetch(benchmark::State& state, const Case& one) {
  Stream stream(one);
  constexpr std::size_t kMessages = 16;
  if (!stream.is_open() || !stream.run(64 * kMessages)) {
    state.SkipWithError("the endpoints did not connect");
    return;
  }
  const std::uint64_t before = test::allocation_count();
  for (auto _ : state)
    if (!stream.run(kMessages)) {
      state.SkipWithError("a message failed");
      break;
    }
  const double chunks =
      static_cast<double>(state.iterations()) * kMessages * kMessageBytes / one.chunk_bytes;
  report(state, chunks, test::allocation_count() - before);
}

// The fabric itself, with as many reads under way.
void fabric_alone(benchmark::State& state) {
  const Case one;
  test::ScriptedNet net(fabric_options(one));
  const auto a = net.make();
  const auto b = net.make();
  FabricEvent event;
  const auto wait = [&](MessageFabric& side) {
    while (side.poll_events({&event, 1}) == 0)
      net.advance_to(net.now() + one.turn);
  };
  if (!b->add_address("").ok()) return;
  const FabricPeer to_b = a->connect(b->addresses()[0], {}, one.lanes).value();
  wait(*b);
  const FabricPeer to_a = event.peer;
  if (!b->accept(to_a, {}, one.lanes).ok()) return;
  wait(*a);
  std::vector<std::byte> memory(one.chunk_bytes);
  if (!a->add_region(LocalKey{1}, memory).ok() || !b->add_region(LocalKey{1}, memory).ok()) return;
  const Sge piece{.data = memory.data(), .bytes = one.chunk_bytes, .region = LocalKey{1}};
  const RemoteSpan remote = b->offer(to_a, piece);
  constexpr std::size_t kReads = 16;
  std::vector<FabricOp> ops(kReads);
  std::vector<FabricCompletion> done(32);
  for (std::size_t i = 0; i < kReads; ++i) {
    ops[i] = {.kind = FabricOp::Kind::kRead, .lane = static_cast<std::uint16_t>(i), .peer = to_b};
    ops[i].local = {&piece, 1};
    ops[i].remote = {&remote, 1};
  }
  double chunks = 0;
  std::size_t under_way = 0;
  std::uint64_t before = 0;
  const auto turn = [&] {
    if (under_way < 2 * kReads) under_way += a->post(ops);
    net.advance_to(net.now() + one.turn);
    for (std::size_t n = a->poll(done); n != 0; n = a->poll(done)) {
      under_way -= n;
      chunks += static_cast<double>(n);
    }
  };
  for (int i = 0; i < 1000; ++i)
    turn();
  chunks = 0;
  before = test::allocation_count();
  for (auto _ : state)
    turn();
  report(state, chunks, test::allocation_count() - before);
}

void add(const std::string& name, const Case& one) {
  benchmark::RegisterBenchmark(("fetch/" + name).c_str(),
                               [one](benchmark::State& state) { fetch(state, one); });
}

void add_all() {
  benchmark::RegisterBenchmark("fabric_alone", fabric_alone);
  for (const char* policy : {"single", "round_robin", "bitmap", "reps", "mixed", "least_rtt"})
    add(std::string("policy:") + policy, {.path_selector = policy});
  for (const char* control : {"fixed_window", "nscc", "swift", "timely", "dcqcn", "dctcp"})
    add(std::string("control:") + control, {.congestion_control = control});
  for (const std::uint16_t lanes : {std::uint16_t{1}, std::uint16_t{4}, std::uint16_t{64}})
    add("lanes:" + std::to_string(lanes), {.lanes = lanes});
  for (const std::uint32_t chunk : {16384U, 262144U})
    add("chunk:" + std::to_string(chunk), {.chunk_bytes = chunk});
  add("turn:1us", {.turn = std::chrono::microseconds(1)});
  add("turn:5us", {.turn = std::chrono::microseconds(5)});
}

}  // namespace
}  // namespace spindrift::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  spindrift::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
