#pragma once
// A small world for endpoint tests: endpoints that reach each other, and a way to let time pass.
// The contract suite runs unchanged over every implementation: a later provider or engine adds one.
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

namespace spindrift {

// Faults applied to what an endpoint sends, in the syntax of the fault wrapper; empty: none.
struct WorldEndpointConfig {
  EndpointConfig endpoint{};
  std::string faults{};
  std::uint32_t rails = 1;  // local addresses, 1..2
};

class MemoryNetwork;

class EndpointWorld {
 public:
  virtual ~EndpointWorld() = default;
  virtual std::string name() const = 0;
  // An endpoint that listens nowhere yet.
  virtual std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) = 0;
  // An address for listen() that no other endpoint of this world uses.
  virtual std::string listen_address() = 0;
  // A well-formed address where no process listens.
  virtual std::string nobody_address() = 0;
  // Lets some time pass (virtual or real) after the endpoints had their turns, not beyond
  // `deadline`, when one of them has something to do.
  virtual void pass_time(Time deadline) = 0;
  virtual Time now() const = 0;
  // Paths that a connection has which asked for so many.
  virtual std::uint32_t paths(std::uint32_t wanted) const { return wanted; }
  virtual bool has_rails() const { return true; }  // several local addresses in one endpoint
  // Whether time passes by pass_time() alone.
  virtual bool is_virtual() const { return false; }
  // Null where packets travel through the operating system.
  virtual MemoryNetwork* network() { return nullptr; }
};

// Every implementation the suite runs over: "memory", "udp", "shm", ...
struct WorldFactory {
  std::string name;
  std::function<std::unique_ptr<EndpointWorld>()> make;
};
inline void PrintTo(const WorldFactory& world, std::ostream* out) {
  *out << world.name;
}
std::vector<WorldFactory> all_worlds();
std::vector<WorldFactory> lossy_worlds();     // over packets: faults can be applied
std::vector<WorldFactory> reliable_worlds();  // over media that are reliable by themselves
WorldFactory ipv6_world();

// Two connected endpoints and what tests do with them.
class Pair {
 public:
  struct Options {
    WorldEndpointConfig a{};
    WorldEndpointConfig b{};
    ConnectOptions connect{};
    ConnectOptions accept{};
  };
  Pair(EndpointWorld& world, const Options& options);

  // One turn of both endpoints, then some time.
  void step();
  // Steps until `is_done`, or `limit` (world time) has passed: false.
  bool run_until(const std::function<bool()>& is_done, Duration limit = std::chrono::seconds(20));
  // Connects a to b and waits until both are open.
  bool open();
  // The same for one more connection; zero ids when it did not open.
  struct Ends {
    ConnId ab{};
    ConnId ba{};
  };
  Ends open_another(const ConnectOptions& connect, const ConnectOptions& accept);

  // Posts one request, on the first connection unless it names another.
  bool post_a(WorkRequest work);
  bool post_b(WorkRequest work);

  // Completions taken from an endpoint, in order.
  std::vector<Completion>& take(Endpoint& endpoint);
  bool wait_completions(Endpoint& endpoint, std::size_t count,
                        Duration limit = std::chrono::seconds(20));

  EndpointWorld& world;
  std::unique_ptr<Endpoint> a;
  std::unique_ptr<Endpoint> b;
  ConnId ab{};  // a's end
  ConnId ba{};  // b's end
  std::vector<ConnEvent> a_events;
  std::vector<ConnEvent> b_events;
  std::vector<Completion> a_done;
  std::vector<Completion> b_done;
  Options options;
  std::string address;
  // Its program computes: nobody calls progress().
  bool a_is_frozen = false;
  bool b_is_frozen = false;

 private:
  void drain();
  static void drain(Endpoint& endpoint, std::vector<Completion>& done,
                    std::vector<ConnEvent>& events);
};

// Registered memory filled with a pattern that depends on `seed` and the offset.
struct Buffer {
  Buffer(Endpoint& endpoint, std::size_t bytes, Access access = kAllAccess);
  void fill(std::uint64_t seed);
  void clear() { std::fill(bytes.begin(), bytes.end(), std::byte{0}); }
  bool matches(std::uint64_t seed, std::size_t offset, std::size_t count,
               std::size_t pattern_offset = 0) const;
  Sge piece(std::size_t offset, std::size_t count) const {
    return sge_of(region, offset, static_cast<std::uint32_t>(count));
  }
  Sge all() const { return piece(0, bytes.size()); }
  std::uint64_t key() const { return region.remote.key; }
  std::uint64_t word(std::size_t offset) const;  // 8 bytes as the host reads them
  std::vector<std::byte> bytes;
  MemoryRegion region;
};
std::byte pattern(std::uint64_t seed, std::size_t offset);

std::vector<OpStatus> statuses(const std::vector<Completion>& completions);
std::vector<std::uint64_t> user_data(const std::vector<Completion>& completions);
bool has_event(const std::vector<ConnEvent>& events, ConnEvent::Kind kind, ConnId conn);

std::uint64_t counter(const Endpoint& endpoint, std::string_view name);
std::uint64_t counter(const Endpoint& endpoint, ConnId conn, std::string_view name);
double state(const Endpoint& endpoint, ConnId conn, std::string_view name);

}  // namespace spindrift
