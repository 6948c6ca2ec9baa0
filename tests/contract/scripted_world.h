#pragma once
// Endpoints over lanes as a network device has them: messages keep to a way of their own, and what
// is long is fetched in chunks by whichever lane.
#include <algorithm>
#include <memory>
#include <string>

#include "spindrift/open.h"

#include "tests/contract/endpoint_world.h"
#include "tests/transport/scripted_fabric.h"
#include "transport/base/check.h"

namespace spindrift {

class ScriptedWorld final : public EndpointWorld {
 public:
  explicit ScriptedWorld(const test::ScriptedOptions& options) : net_(options) {}
  std::string name() const override { return "scripted"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    EndpointConfig endpoint = config.endpoint;
    auto fabric = net_.make();
    for (std::uint32_t rail = 0; rail < config.rails; ++rail)
      SPINDRIFT_CHECK(fabric->add_address("").ok());
    if (endpoint.seed == 0) endpoint.seed = 1000 + ++hosts_;
    auto made = Endpoint::create(std::move(fabric), endpoint, builtin_registry());
    SPINDRIFT_CHECK(made.ok());
    return std::move(made).value();
  }
  std::string listen_address() override { return "scripted://"; }
  std::string nobody_address() override { return "scripted://nobody"; }
  void pass_time(Time deadline) override {
    const Time soonest = now() + kShortestStep;
    const Time next = std::min({net_.next_event(), deadline, now() + longest_step});
    net_.advance_to(std::max(next, soonest));
  }
  Time now() const override { return net_.now(); }
  bool is_virtual() const override { return true; }
  test::ScriptedNet& net() { return net_; }

  Duration longest_step = std::chrono::milliseconds(10);

 private:
  static constexpr Duration kShortestStep = std::chrono::nanoseconds(200);
  test::ScriptedNet net_;
  unsigned hosts_ = 0;
};

}  // namespace spindrift
