#pragma once
// Hosts around one switch, with lanes and nothing above them.
#include <algorithm>
#include <memory>
#include <vector>

#include "sim/lane_fabric.h"
#include "sim/sim_io.h"
#include "sim/topology.h"
#include "transport/base/check.h"

namespace spindrift::sim {

struct LaneWorldOptions {
  std::uint32_t hosts = 2;
  std::uint32_t nics = 1;  // of a host
  std::uint16_t lanes = 8;
  double loss = 0;  // of each packet on each link
  std::uint64_t queue_bytes = 1U << 20U;
  LaneSender::Shape lane{};
};

class LaneWorld final : public HostSide {
 public:
  explicit LaneWorld(const LaneWorldOptions& options = {})
      : options_(options),
        plan_(make_plan(options)),
        events_({.actors = Network::actors_for(plan_), .seed = 1}),
        network_(plan_,
                 {.switches = {.queue_bytes = options.queue_bytes,
                               .control_bytes = options.queue_bytes,
                               .marking = Marking::kOff},
                  .kept_bytes = options.lane.mtu + 128,
                  .max_bytes = options.lane.mtu + 128,
                  .seed = 7},
                 events_, *this),
        fabrics_(options.hosts, nullptr) {
    for (std::uint32_t port = 0; port < network_.port_count(); ++port)
      network_.set_loss(port, options.loss);
    static_cast<void>(events_.next(kMillisecond));  // zero would be no time at all
  }

  // Of the next host.
  std::unique_ptr<LaneFabric> make() {
    SPINDRIFT_CHECK(next_host_ < fabrics_.size());
    const LaneFabric::Shape shape{.first_nic = next_host_ * options_.nics,
                                  .nics = options_.nics,
                                  .link_rate = Rate::gbps(100),
                                  .lanes = options_.lanes,
                                  .lane = options_.lane,
                                  .frame_overhead_bytes = 66,
                                  .min_frame_bytes = 84,
                                  .all_nics = plan_.nics};
    auto made = std::make_unique<Watched>(*this, shape, network_, events_);
    fabrics_[next_host_++] = made.get();
    return made;
  }

  Picoseconds now() const { return events_.now(); }
  Network& network() { return network_; }
  // One thing happens, or time moves to `until`. False: there is nothing more until then.
  bool step(Picoseconds until) {
    Picoseconds due = until;
    for (std::uint32_t host = 0; host < fabrics_.size(); ++host) {
      if (fabrics_[host] == nullptr) continue;
      for (std::uint32_t k = 0; k < options_.nics; ++k)
        if (fabrics_[host]->wants_room(k)) network_.wants_free(host * options_.nics + k);
      due = std::min(due, fabrics_[host]->next_due());
    }
    const EventList::Actor actor = events_.next(std::max(due, events_.now()));
    if (actor != EventList::kNobody) {
      network_.on_event(actor);
      return true;
    }
    for (LaneFabric* const fabric : fabrics_)
      if (fabric != nullptr) fabric->on_time();
    return events_.now() < until;
  }
  void run(Picoseconds until) {
    while (step(until)) {
    }
  }

 private:
  // What comes for a host that is no more is lost.
  class Watched final : public LaneFabric {
   public:
    Watched(LaneWorld& world, const Shape& shape, Network& network, const EventList& events)
        : LaneFabric(shape, network, events), world_(world), host_(shape.first_nic / shape.nics) {}
    ~Watched() override { world_.fabrics_[host_] = nullptr; }

   private:
    LaneWorld& world_;
    std::uint32_t host_;
  };

  static NetworkPlan make_plan(const LaneWorldOptions& options) {
    return std::get<NetworkPlan>(plan_network({.name = "multi_plane",
                                               .hosts = options.hosts,
                                               .hosts_per_leaf = options.hosts,
                                               .spines = 1,
                                               .planes = options.nics}));
  }
  void on_packet(std::uint32_t nic, PacketId packet) override {
    if (LaneFabric* const fabric = fabrics_[nic / options_.nics]; fabric != nullptr)
      fabric->deliver(nic, packet);
    else
      network_.packets().give_back(packet);
  }
  void on_port_free(std::uint32_t nic) override {
    if (LaneFabric* const fabric = fabrics_[nic / options_.nics]; fabric != nullptr)
      fabric->on_room();
  }

  LaneWorldOptions options_;
  NetworkPlan plan_;
  EventList events_;
  Network network_;
  std::vector<LaneFabric*> fabrics_;  // by host
  std::uint32_t next_host_ = 0;
};

}  // namespace spindrift::sim
