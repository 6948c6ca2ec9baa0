#pragma once
// One run: network, hosts, connections and flows of a scenario, and the loop over their events.
// world.cc: building and connecting; traffic.cc: flows; report.cc: samples and results.
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "sim/collective_run.h"
#include "sim/host.h"
#include "sim/path_time.h"
#include "sim/simulation.h"
#include "sim/world_memory.h"

namespace spindrift::sim {

class World final : public HostSide, public HostUser, public HostProgram {
 public:
  World(const Scenario& scenario, const Registry& registry, const NetworkPlan& plan,
        FlowPlans flows);

  // Hosts and connections, in simulated time before the workload's start. A sentence when a
  // connection cannot be opened.
  Status set_up(const TakeSeat& take_seat);
  // Before run(); not ok: the observer does not want the run.
  std::optional<Complaint> observe(RunObserver& observer);
  void run(const RunOptions& options);
  Results results();
  // Every port of a link that a fault names; empty: there is no such link.
  static std::vector<std::uint32_t> ports_of(const NetworkPlan& plan, const FaultSpec& fault);

 private:
  // Flows of one pair of hosts share a connection.
  struct Pair {
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    ConnId at_source{};
    ConnId at_destination{};
    std::uint32_t receives = 0;  // RECEIVEs that flows will meet
    std::uint32_t requests = 0;  // WRITEs of all flows
    int open_ends = 0;
    Picoseconds rtt = 0;
    std::vector<std::uint32_t> path{};    // a shortest one: ports
    std::deque<std::uint32_t> waiting{};  // flows that found the send queue full
    std::uint32_t first_flow = 0;
    std::uint64_t acked_before = 0;
  };
  struct Flow {
    std::uint32_t pair = 0;
    std::uint32_t awaits = 0;
    std::uint64_t posted = 0;  // bytes
    FlowRecord record{};
  };
  struct Item {
    enum class Kind : std::uint8_t { kConnect, kFlow, kFault, kSample, kDeadlock };
    Picoseconds at = 0;
    std::uint64_t serial = 0;
    Kind kind = Kind::kFlow;
    std::uint32_t index = 0;
    bool operator<(const Item& other) const {  // the earliest on top
      return at != other.at ? at > other.at : serial > other.serial;
    }
  };
  struct FaultStep {
    std::uint32_t port = 0;
    FaultSpec::Kind kind = FaultSpec::Kind::kDown;
    double value = 0;
  };

  // HostSide
  void on_packet(std::uint32_t nic, PacketId packet) override;
  void on_port_free(std::uint32_t nic) override;
  // HostUser
  void on_completion(std::uint32_t host, const Completion& completion) override;
  void on_conn_event(std::uint32_t host, const ConnEvent& event) override;

  // HostProgram
  bool turn_of(std::uint32_t host) override { return collective_->turn(host); }

  // Actors: the network's, then the hosts', then the agenda.
  EventList::Actor host_actor(std::uint32_t host) const { return network_actors_ + host; }
  EventList::Actor agenda_actor() const {
    return network_actors_ + static_cast<std::uint32_t>(hosts_.size());
  }
  void plan_item(Picoseconds at, Item::Kind kind, std::uint32_t index);
  void run_agenda();
  void run_item(const Item& item);
  bool step(Picoseconds until);  // one event; false: none until then

  // world.cc
  void make_pairs();
  Status start_hosts();
  Rate link_rate_of(std::uint32_t host) const;
  SimIo::Shape io_shape(std::uint32_t host) const;
  LaneFabric::Shape lane_shape(std::uint32_t host) const;
  EndpointConfig endpoint_config(std::uint32_t host, std::uint32_t window) const;
  ConnectOptions connect_options(const Pair& pair, std::uint32_t host) const;
  std::uint32_t window_packets() const;
  void plan_connects();
  void connect(std::uint32_t pair);
  void accept(std::uint32_t host, ConnId conn);
  void plan_faults();
  void apply(const FaultStep& step);
  // traffic.cc
  void begin_workload();
  [[nodiscard]] Picoseconds shortest_delay() const;
  void separate_places(Picoseconds window);
  void tell(EventKind kind, std::uint32_t flow);
  void start_flow(std::uint32_t flow);
  void post(std::uint32_t flow);
  void post_receives(std::uint32_t pair);
  void on_finished(std::uint32_t flow, OpStatus status);
  void on_delivered(std::uint32_t flow);
  void release(const std::vector<std::uint32_t>& flows);
  // world_collective.cc
  void make_calls();
  Status set_up_collective(const TakeSeat& take_seat);
  void begin_calls();
  void begin_call(std::uint32_t rank);
  void on_call_done(std::uint32_t rank, const Status& status);
  void sleep(std::uint32_t host, Duration timeout);
  // report.cc
  void sample();
  void look_for_deadlocks();
  void count_into(FlowRecord& record, const Pair& pair, bool is_end) const;
  std::string name_of(std::uint32_t port) const;

  Picoseconds since_start() const { return events_.now() - started_; }

  const Scenario& scenario_;
  const Registry& registry_;
  const NetworkPlan& plan_;
  const FlowPlans plans_;
  std::uint32_t network_actors_ = 0;
  EventList events_;
  Network network_;
  WorldMemory memory_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::uint32_t> first_nics_;  // by host, and one past the last
  std::vector<MemoryRegion> sources_;      // by host
  std::vector<MemoryRegion> sinks_;
  std::vector<Pair> pairs_;
  std::vector<std::vector<std::uint32_t>> pairs_of_;  // by host, at either end
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> calls_done_;  // of a collective, by rank
  std::vector<FaultStep> fault_steps_;
  std::priority_queue<Item> agenda_;
  std::uint64_t next_serial_ = 0;
  Picoseconds longest_rtt_ = 0;
  Picoseconds started_ = 0;
  Picoseconds finished_ = 0;
  Picoseconds last_end_ = 0;  // of a flow, since started_
  std::size_t done_ = 0;
  std::uint32_t open_pairs_ = 0;
  RunObserver* observer_ = nullptr;
  std::string trouble_;  // of a connection that did not open
  bool is_running_ = false;
  Results results_;
  std::unique_ptr<CollectiveRun> collective_;  // goes first: it waits while it closes
};

}  // namespace spindrift::sim
