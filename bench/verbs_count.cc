// What one message costs an RDMA device: requests, doorbells and completions, counted at both ends
// of a connection between two endpoints of this process. tools/benchmark/verbs_inside.py runs it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/endpoint.h"
#include "spindrift/open.h"

namespace spindrift {
namespace {

constexpr std::size_t kWarmUp = 64;
constexpr std::size_t kBatch = 32;
constexpr std::array<const char*, 3> kCounters{"verbs_requests", "verbs_doorbells",
                                               "verbs_completions"};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "verbs_count: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error().message());
  return std::move(result).value();
}

struct Counted final : public CounterWriter {
  void counter(std::string_view name, std::uint64_t value) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, std::uint64_t> values;
};

struct Side {
  std::unique_ptr<Endpoint> endpoint;
  ConnId conn{};
  std::vector<std::byte> memory;
  MemoryRegion region;
  std::size_t done = 0;

  void open(const char* address, std::size_t bytes) {
    endpoint = take(open_endpoint(address));
    memory.resize(std::max<std::size_t>(bytes, 1));
    region = take(endpoint->register_memory(memory, kAllAccess));
  }
  // False: there is no room now.
  bool post(OpKind kind, std::uint32_t bytes, std::uint64_t remote_key) {
    const Sge piece = sge_of(region, 0, bytes);
    WorkRequest work{.conn = conn, .kind = kind, .local = {&piece, 1}};
    if (kind != OpKind::kReceive) work.remote_key = remote_key;
    return endpoint->post({&work, 1}).accepted == 1;
  }
  void poll() {
    std::array<Completion, kBatch> out;
    const std::size_t count = endpoint->poll(out);
    for (std::size_t i = 0; i < count; ++i)
      if (out[i].status != OpStatus::kOk) fail(endpoint->last_error(conn));
    done += count;
  }
  Counted counters() const {
    Counted out;
    endpoint->counters(out);
    return out;
  }
};

void join(Side& a, Side& b) {
  const auto listener = b.endpoint->listen("verbs://");
  if (!listener.ok()) fail(listener.error().message());
  a.conn = take(a.endpoint->connect(b.endpoint->local_addresses().front()));
  ConnEvent event;
  while (!b.endpoint->take_event(ConnEvent::Kind::kRequest, event)) {
    a.endpoint->progress();
    b.endpoint->progress();
  }
  b.conn = event.conn;
  if (const Status accepted = b.endpoint->accept(b.conn); !accepted.ok())
    fail(accepted.error().message());
  while (!a.endpoint->take_event(ConnEvent::Kind::kEstablished, event)) {
    if (a.endpoint->take_event(ConnEvent::Kind::kFailed, event))
      fail(a.endpoint->last_error(a.conn));
    a.endpoint->progress();
    b.endpoint->progress();
  }
}

struct Load {
  OpKind kind = OpKind::kWrite;
  std::uint32_t bytes = 0;
  std::size_t depth = 1;
};

// Until `count` more messages have completed at a.
void run(Side& a, Side& b, const Load& load, std::size_t count) {
  a.done = 0;
  std::size_t received = load.kind == OpKind::kSend ? 0 : count;
  for (std::size_t posted = 0; a.done < count;) {
    while (received < count && received < b.done + 2 * load.depth &&
           b.post(OpKind::kReceive, load.bytes, 0))
      ++received;
    while (posted < count && posted < a.done + load.depth &&
           a.post(load.kind, load.bytes, b.region.remote.key))
      ++posted;
    a.poll();
    b.poll();
  }
  b.done = 0;
}

void print(const char* name, const Counted& before, const Counted& after, std::size_t messages) {
  std::printf("\"%s\": {", name);
  for (std::size_t i = 0; i < kCounters.size(); ++i)
    std::printf(
        "%s\"%s\": %.4f", i == 0 ? "" : ", ", kCounters.at(i),
        static_cast<double>(after.values.at(kCounters.at(i)) - before.values.at(kCounters.at(i))) /
            static_cast<double>(messages));
  std::printf("}");
}

int count(const char* near, const char* far, const Load& load, std::size_t messages) {
  Side a;
  Side b;
  a.open(near, load.bytes);
  b.open(far, load.bytes);
  join(a, b);
  run(a, b, load, kWarmUp);
  const Counted a_before = a.counters();
  const Counted b_before = b.counters();
  const Time start = a.endpoint->now();
  run(a, b, load, messages);
  const Duration took = a.endpoint->now() - start;
  std::printf("{");
  print("sender", a_before, a.counters(), messages);
  std::printf(", ");
  print("receiver", b_before, b.counters(), messages);
  std::printf(
      ", \"us_per_message\": %.2f}\n",
      std::chrono::duration<double, std::micro>(took).count() / static_cast<double>(messages));
  return 0;
}

}  // namespace
}  // namespace spindrift

int main(int count, char** words) {
  if (count != 7) {
    std::fprintf(stderr,
                 "usage: verbs_count verbs://NEAR verbs://FAR send|write BYTES DEPTH COUNT\n");
    return 2;
  }
  const auto number = [words](int at) { return std::strtoul(words[at], nullptr, 10); };
  const spindrift::Load load{.kind = std::string_view(words[3]) == "send"
                                         ? spindrift::OpKind::kSend
                                         : spindrift::OpKind::kWrite,
                             .bytes = static_cast<std::uint32_t>(number(4)),
                             .depth = number(5)};
  return spindrift::count(words[1], words[2], load, number(6));
}
