// DPDK devices for the provider contract suite; ctest runs it once per device, because DPDK is
// started once per process.
#include <utility>

#include <gtest/gtest.h>

#include "providers/dpdk/dpdk_io.h"
#include "tests/contract/provider_world.h"
#include "tests/providers/dpdk/dpdk_pair.h"

namespace spindrift::testing {
namespace {

class DpdkWorld final : public ProviderWorld {
 public:
  DpdkWorld(const std::string& device, std::uint8_t family)
      : pair_(make_dpdk_pair(device)), family_(family) {}

  std::unique_ptr<PacketIo> open(std::size_t host) override {
    const DeviceOptions options = pair_->options(host);
    auto io = open_dpdk({&options, 1});
    if (!io.ok()) {
      ADD_FAILURE() << io.error().message();
      std::abort();
    }
    if (host == 1) pair_->connect();
    return std::move(io).value();
  }
  NetAddress address(std::size_t host, std::size_t rail) override {
    return dpdk_address(family_, host, rail);
  }
  NetAddress foreign_address() override {
    return parse_net_address(family_ == 4 ? "192.0.2.1:0" : "[2001:db8::1]:0", 0).value();
  }
  void settle(PacketIo& /*receiver*/) override { pair_->settle(); }

 private:
  std::unique_ptr<DpdkPair> pair_;
  std::uint8_t family_;
};

}  // namespace

std::vector<ProviderWorldInfo> provider_worlds() {
  std::vector<ProviderWorldInfo> out;
  for (const std::string& name : dpdk_pair_names())
    for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}})
      out.push_back({name + (family == 6 ? "_ipv6" : "_ipv4"),
                     [=] { return std::make_unique<DpdkWorld>(name, family); },
                     [=] { return reason_to_skip_dpdk_pair(name); }});
  return out;
}

}  // namespace spindrift::testing
