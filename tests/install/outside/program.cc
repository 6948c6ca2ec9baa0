// Two endpoints of one process meet; uses what the shared library must export.
#include <chrono>
#include <cstdio>

#include "spindrift/collective.h"
#include "spindrift/open.h"

using namespace spindrift;
using namespace std::chrono_literals;

int main() {
  auto server = open_endpoint("udp://");
  auto client = open_endpoint("udp://");
  if (!server.ok() || !client.ok()) return 1;
  if (!server.value()->listen("udp://127.0.0.1:0").ok()) return 2;
  const auto conn = client.value()->connect(server.value()->local_addresses().front());
  if (!conn.ok()) return 3;
  ConnState state = ConnState::kConnecting;
  const Time end = client.value()->now() + 10s;
  while (state != ConnState::kOpen && client.value()->now() < end) {
    client.value()->progress();
    server.value()->progress();
    ConnEvent event;
    if (server.value()->poll_events({&event, 1}) == 1 && event.kind == ConnEvent::Kind::kRequest &&
        !server.value()->accept(event.conn).ok())
      return 4;
    state = client.value()->info(conn.value()).value().state;
  }
  const RemoteRegion region{.key = 1, .bytes = 2};
  if (!RemoteRegion::deserialize(region.serialize()).ok()) return 5;
  if (!builtin_registry().find_path_selector("reps").ok() || bytes_of(DataType::kFloat16) != 2)
    return 6;
  std::printf("%.*s\n", static_cast<int>(to_string(state).size()), to_string(state).data());
  return state == ConnState::kOpen ? 0 : 7;
}
