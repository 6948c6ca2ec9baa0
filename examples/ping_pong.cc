// Latency: two processes send one small message back and forth.
//   ping_pong server udp://127.0.0.1:4793
//   ping_pong client udp://127.0.0.1:4793 [BYTES [ROUND_TRIPS]]
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "spindrift/open.h"
#include "spindrift/tunables.h"

namespace {

using namespace spindrift;
using namespace std::chrono_literals;

constexpr std::uint32_t kMaxBytes = 65536;

struct Options {
  std::uint32_t message_bytes = 8;
  std::uint32_t round_trips = 10000;
  ConnectOptions connect{};
};

[[noreturn]] void give_up(std::string_view why) {
  std::fprintf(stderr, "ping_pong: %.*s\n", static_cast<int>(why.size()), why.data());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  give_up(result.error().message());
}

// One side of the game: a buffer to send from, a buffer to receive into.
class Player {
 public:
  Player(Endpoint& endpoint, ConnId conn)
      : endpoint_(endpoint),
        conn_(conn),
        outgoing_(kMaxBytes),
        incoming_(kMaxBytes),
        outgoing_region_(must(endpoint.register_memory(outgoing_, Access::kLocalRead))),
        incoming_region_(must(endpoint.register_memory(incoming_, Access::kLocalWrite))) {
    post_receive();
  }

  void send(std::uint32_t message_bytes) {
    const Sge piece = sge_of(outgoing_region_, 0, message_bytes);
    post({.conn = conn_, .kind = OpKind::kSend, .local = {&piece, 1}});
  }

  // Polls without pause until a message is here, and returns its length; nothing when the peer
  // has closed the connection.
  bool receive(std::uint32_t& message_bytes) {
    while (true) {
      std::array<Completion, 8> done;
      const std::size_t count = endpoint_.poll(done);
      for (std::size_t i = 0; i < count; ++i) {
        if (done[i].status == OpStatus::kFlushed) return false;
        if (done[i].status != OpStatus::kOk) give_up(endpoint_.last_error(conn_));
        // The completion of our own SEND needs no answer.
        if (done[i].kind != OpKind::kReceive) continue;
        message_bytes = static_cast<std::uint32_t>(done[i].bytes);
        has_message_ = true;
      }
      if (std::exchange(has_message_, false)) {
        post_receive();
        return true;
      }
    }
  }

 private:
  void post_receive() {
    const Sge piece = sge_of(incoming_region_, 0, kMaxBytes);
    post({.conn = conn_, .kind = OpKind::kReceive, .local = {&piece, 1}});
  }

  void post(const WorkRequest& work) {
    if (endpoint_.post({&work, 1}).accepted != 1) give_up(endpoint_.last_error(conn_));
  }

  Endpoint& endpoint_;
  ConnId conn_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  MemoryRegion outgoing_region_;
  MemoryRegion incoming_region_;
  bool has_message_ = false;
};

void serve(Endpoint& endpoint, std::string_view address, const ConnectOptions& options) {
  must(endpoint.listen(address));
  Player player(endpoint, must(accept_one(endpoint, 60s, options)));
  std::uint32_t message_bytes = 0;
  while (player.receive(message_bytes))
    player.send(message_bytes);
}

void print_latency(const Options& options, std::vector<Duration>& samples) {
  std::sort(samples.begin(), samples.end());
  const auto half_trip_us = [&samples](double quantile) {
    const auto index = static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1));
    return static_cast<double>(samples[index].count()) / 2000.0;
  };
  std::printf("%u bytes, %zu round trips; half a round trip in us:\n", options.message_bytes,
              samples.size());
  std::printf("  min %.2f  median %.2f  99%% %.2f  max %.2f\n", half_trip_us(0), half_trip_us(0.5),
              half_trip_us(0.99), half_trip_us(1));
}

void play(Endpoint& endpoint, std::string_view address, const Options& options) {
  const ConnId conn = must(connect_and_wait(endpoint, address, options.connect));
  Player player(endpoint, conn);
  std::vector<Duration> samples;
  samples.reserve(options.round_trips);
  std::uint32_t message_bytes = 0;
  for (std::uint32_t i = 0; i < options.round_trips; ++i) {
    const Time start = endpoint.now();
    player.send(options.message_bytes);
    if (!player.receive(message_bytes)) give_up("the server closed the connection");
    samples.push_back(endpoint.now() - start);
  }
  print_latency(options, samples);
  endpoint.close(conn);
  must(wait_event(endpoint, 5s));  // closed
}

bool parse_number(std::string_view text, std::uint32_t max, std::uint32_t& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && out >= 1 &&
         out <= max;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  const std::string_view role = count >= 3 && count <= 5 ? arguments[1] : "";
  if ((role != "server" && role != "client") ||
      (count > 3 && !parse_number(arguments[3], kMaxBytes, options.message_bytes)) ||
      (count > 4 && !parse_number(arguments[4], 100'000'000, options.round_trips))) {
    std::fprintf(
        stderr,
        "usage: ping_pong server udp://HOST:PORT|shm://NAME\n"
        "       ping_pong client udp://HOST:PORT|shm://NAME [BYTES (1..%u) [ROUND_TRIPS]]\n",
        kMaxBytes);
    return 2;
  }
  const Settings settings = must(load_settings());
  options.connect = settings.connect;
  const std::string_view address = arguments[2];
  const std::string_view provider = address.substr(0, address.find("://") + 3);
  const auto endpoint = must(open_endpoint(
      provider, {.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm}));
  if (role == "server") {
    serve(*endpoint, arguments[2], settings.connect);
  } else {
    play(*endpoint, arguments[2], options);
  }
  return 0;
}
