// What an open connection that does nothing takes, beside the windows that its owner asked for.
#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/contract/endpoint_world.h"

namespace spindrift {
namespace {

constexpr std::size_t kConnections = 64;

WorldEndpointConfig config_of(std::uint32_t scale) {
  WorldEndpointConfig config;
  config.endpoint.max_connections = kConnections + 1;
  config.endpoint.send_queue = 16 * scale;
  config.endpoint.receive_queue = 16 * scale;
  config.endpoint.window_packets = 128 * scale;
  config.endpoint.max_reads = 4 * scale;
  return config;
}

// Bytes per end of a connection, with queues and windows of `scale` times the smallest.
double bytes_per_end(std::uint32_t scale) {
  auto world = all_worlds().front().make();
  Pair pair(*world, {.a = config_of(scale), .b = config_of(scale)});
  EXPECT_TRUE(pair.open());
  const std::size_t before = mallinfo2().uordblks;
  for (std::size_t i = 0; i < kConnections; ++i)
    EXPECT_NE(pair.open_another({}, {}).ba.value, 0U);
  pair.run_until([] { return false; }, std::chrono::milliseconds(50));
  const std::size_t after = mallinfo2().uordblks;
  return static_cast<double>(after - before) / static_cast<double>(2 * kConnections);
}

TEST(ConnectionMemory, AnIdleConnectionOf16PathsTakesAtMost7KiBBesideItsWindows) {
  const double with_one = bytes_per_end(1);
  const double with_two = bytes_per_end(2);
  const double windows = with_two - with_one;
  const double rest = with_one - windows;
  RecordProperty("windows_bytes", static_cast<int>(windows));
  RecordProperty("rest_bytes", static_cast<int>(rest));
  EXPECT_GT(windows, 0);
  EXPECT_LE(rest, 7 * 1024) << "windows of the smallest size take " << windows;
}

}  // namespace
}  // namespace spindrift
