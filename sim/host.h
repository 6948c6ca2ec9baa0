#pragma once
// A simulated host: an endpoint on packets (SimIo) or lanes (LaneFabric), and its turns.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "spindrift/endpoint.h"

#include "sim/lane_fabric.h"
#include "sim/sim_io.h"

namespace spindrift::sim {

// Who uses the hosts' endpoints.
class HostUser {
 public:
  virtual ~HostUser() = default;
  virtual void on_completion(std::uint32_t host, const Completion& completion) = 0;
  virtual void on_conn_event(std::uint32_t host, const ConnEvent& event) = 0;
};

// Who uses an endpoint by itself, and is given its turns.
class HostProgram {
 public:
  virtual ~HostProgram() = default;
  // True: it did something.
  virtual bool turn_of(std::uint32_t host) = 0;
};

class Host {
 public:
  // `actor` is this host's in the event list.
  Host(std::uint32_t number, EventList::Actor actor, EventList& events, Network& network,
       HostUser& user)
      : number_(number), actor_(actor), events_(events), network_(network), user_(user) {}

  // Instead of the HostUser; before start().
  void run_program(HostProgram& program) { program_ = &program; }
  // One of the two once, before all else. Listens, where no program does.
  Status start(const SimIo::Shape& io, const EndpointConfig& config, const Registry& registry);
  Status start(const LaneFabric::Shape& lanes, const EndpointConfig& config,
               const Registry& registry);

  Endpoint& endpoint() { return *endpoint_; }
  const Endpoint& endpoint() const { return *endpoint_; }
  HostMedium& medium() { return *medium_; }
  // "sim://10.0.0.1:4793,...", all its NICs.
  const std::string& address() const { return address_; }
  // While connections are opened; not asked for later.
  void watch_events(bool does) { watches_events_ = does; }

  // Lets the endpoint work until it has nothing to do at this instant, and sets the next timer.
  void turn();
  // Whether its program, which is in the middle of a turn, would find something new.
  bool has_news() const { return wants_another_; }
  // A program waits, outside its turns too: until the guard goes there are none.
  class Pause {
   public:
    explicit Pause(Host& host) : host_(host), was_in_turn_(host.is_in_turn_) {
      host_.is_in_turn_ = true;
      host_.wants_another_ = false;
      static_cast<void>(host_.medium_->take_is_stuck());
      host_.rest();
    }
    ~Pause() { host_.is_in_turn_ = was_in_turn_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Host& host_;
    bool was_in_turn_;
  };
  void on_timer();
  // A NIC may have room again.
  void on_room();

 private:
  Status listen(Result<std::unique_ptr<Endpoint>> endpoint);
  std::size_t serve();
  void rest();
  void set_timer();

  std::uint32_t number_;
  EventList::Actor actor_;
  EventList& events_;
  Network& network_;
  HostUser& user_;
  HostProgram* program_ = nullptr;
  HostMedium* medium_ = nullptr;  // the endpoint's
  std::uint32_t first_nic_ = 0;
  std::uint32_t nics_ = 1;
  std::unique_ptr<Endpoint> endpoint_;
  std::string address_;
  std::array<Completion, 64> done_{};
  bool watches_events_ = true;
  bool is_in_turn_ = false;
  bool wants_another_ = false;
};

}  // namespace spindrift::sim
