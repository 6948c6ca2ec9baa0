// engine_count MESSAGES: sends that many WRITEs of 1 MiB in packets of 4 KiB from one engine to
// another, without the copy into the user's buffer, and prints how many packets that took. For
// counting instructions under valgrind: two runs differ by what their difference in packets costs.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "bench/engine_stream.h"
#include "bench/skipped_copies.h"

namespace {

constexpr std::uint64_t kMaxMessages = 1'000'000;

int count(std::uint64_t messages) {
  spindrift::bench::EngineStream stream({.has_placement_copy = false});
  if (!stream.is_open() || !stream.run(messages) || !stream.was_clean()) {
    std::fprintf(stderr, "engine_count: a message failed, or a packet was sent twice\n");
    return 1;
  }
  const std::uint64_t packets = stream.pair().at_b().counters.packets_received;
  if (spindrift::bench::skipped_copies() < packets) {
    std::fprintf(stderr,
                 "engine_count: the copies of the payload are no calls of memcpy any more\n");
    return 1;
  }
  std::printf("%llu\n", static_cast<unsigned long long>(packets));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t messages = 0;
  const std::string_view text = argc == 2 ? argv[1] : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), messages);
  if (error != std::errc{} || end != text.data() + text.size() || messages == 0 ||
      messages > kMaxMessages) {
    std::fprintf(stderr, "engine_count: wants one number, of messages, 1..%llu\n",
                 static_cast<unsigned long long>(kMaxMessages));
    return 2;
  }
  return count(messages);
}
