#pragma once
// One endpoint of the plugin and everything that hangs on it. NCCL's service thread connects and
// registers while its progress thread sends, so all that belongs to an engine is done under its
// lock; the progress thread only ever tries it.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/endpoint.h"

#include "plugins/nccl/settings.h"

namespace spindrift::nccl {

class Engine;

// A connection as its engine sees it. All calls come with the engine's lock held.
class Link {
 public:
  virtual ~Link() = default;
  virtual void on_open() = 0;
  virtual void on_completion(const Completion& completion) = 0;
  // Every completion of work that was lost comes before; `why` is a sentence.
  virtual void on_failed(const std::string& why) = 0;
  // Whether a request still uses this registered memory.
  virtual bool uses(std::uint32_t registration) const = 0;
};

// Somebody who waits for connection requests with its nonce.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void on_request(Engine& engine, ConnId conn, std::vector<std::byte> mailbox) = 0;
};

// Memory that a peer may still write to until the connection is gone.
struct Mailbox {
  std::unique_ptr<std::byte[], void (*)(std::byte*)> memory{nullptr, [](std::byte*) {}};
  MemoryRegion region{};
};

class Engine {
 public:
  // What the endpoint is opened with, and where it listens: "udp://" and "udp://10.0.0.1:0",
  // "verbs://mlx5_0:1?port=0" and "verbs://".
  struct Place {
    std::string open{};
    std::string listen{};
    std::uint64_t shm_id = 0;  // not zero: it listens at shm_name() of it
    bool has_several_rails = false;
  };
  static Result<std::unique_ptr<Engine>> open(const Place& place, const PluginSettings& settings);
  // Farewells that are still on their way get kLinger; nothing waits for a dead peer.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void lock();
  bool try_lock() { return !is_locked_.test_and_set(std::memory_order_acquire); }
  void unlock() { is_locked_.clear(std::memory_order_release); }

  // With the lock held:
  Endpoint& endpoint() { return *endpoint_; }
  const ConnectOptions& connect_options() const { return connect_; }
  // One turn, and whatever came goes to its link. Cheap when there is nothing to do.
  void progress();
  // The next progress() makes a turn, however idle it has been.
  void expect_news() {
    idle_calls_to_skip_ = 0;
    idle_turns_ = 0;
    next_turn_ = Time{};
  }
  // A turn in any case, and the news of connections.
  void progress_now();

  // A link gets a number, which its work carries in user_data (work_tag()).
  std::uint32_t attach(Link& link, ConnId conn);
  void set_connection(std::uint32_t number, ConnId conn);
  enum class Ending : std::uint8_t {
    kFarewell,  // everything is acknowledged
    kWait,      // for the peer's farewell: it may still lack acknowledgements of ours
    kAbort,     // work is under way
  };
  // The link is forgotten; its connection ends by and by.
  void detach(std::uint32_t number, Ending ending, Mailbox mailbox);
  static std::uint64_t work_tag(std::uint32_t number, std::uint32_t tag) {
    return std::uint64_t{number} << 32 | tag;
  }
  void expect(std::uint64_t nonce, Caller& caller);
  void forget(std::uint64_t nonce);

  // Registered memory by the number of its registration (memory.h), made when first needed.
  Result<MemoryRegion> region_of(std::uint32_t registration, std::span<std::byte> bytes);
  void drop_region(std::uint32_t registration);

  bool is_shm() const { return shm_id_ != 0; }
  // Whose idle connections are probed by the transport itself.
  bool has_packets() const { return name_ == "udp" || name_ == "dpdk"; }
  // In a child of fork(): everything here belongs to the parent.
  bool is_foreign() const;
  // Leaves the endpoint as it is.
  void abandon();
  // "udp://10.0.0.1:40001"
  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::string& name() const { return name_; }
  std::uint64_t shm_id() const { return shm_id_; }

 private:
  struct Slot {
    Link* link = nullptr;
    ConnId conn{};
    std::uint32_t number = 0;
    bool is_closing = false;
    Mailbox mailbox;
  };
  struct Expected {
    std::uint64_t nonce = 0;
    Caller* caller = nullptr;
  };

  Engine(std::unique_ptr<Endpoint> endpoint, const PluginSettings& settings, const Place& place);
  Slot* find(std::uint32_t number);
  Slot* find(ConnId conn);
  std::size_t take_completions();
  void take_events();
  void on_event(const ConnEvent& event);
  void on_request(ConnId conn);
  void free(Slot& slot);

  std::atomic_flag is_locked_;
  std::unique_ptr<Endpoint> endpoint_;
  ConnectOptions connect_;
  std::vector<std::string> addresses_;
  std::string name_;
  const std::uint64_t shm_id_;
  std::uint32_t forks_ = 0;
  std::uint32_t idle_calls_to_skip_ = 0;
  std::uint32_t idle_turns_ = 0;  // one after the other that found nothing
  Time next_turn_{};
  std::uint32_t turns_to_events_ = 0;
  bool has_trouble_ = false;  // work has failed since the last look at events
  std::uint32_t next_generation_ = 0;
  std::vector<Slot> slots_;
  std::vector<Expected> expected_;
  std::vector<MemoryRegion> regions_;  // by registration; key 0: none
};

// Counts forks of this process, so that a child can tell (engine.cc).
std::uint32_t fork_count();

}  // namespace spindrift::nccl
