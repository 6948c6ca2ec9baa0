// Datagrams of verbs for the provider contract suite, over two soft-RoCE devices.
#include <array>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "providers/verbs/verbs_datagrams.h"
#include "providers/verbs/verbs_port.h"
#include "tests/contract/provider_world.h"

namespace spindrift::testing {
namespace {

constexpr std::array<const char*, 2> kDevices{"rxe0", "rxe1"};

class VerbsWorld final : public ProviderWorld {
 public:
  explicit VerbsWorld(VerbsTransport transport) : transport_(transport) {}
  std::unique_ptr<PacketIo> open(std::size_t host) override {
    auto io = open_verbs_datagrams(
        {.devices = {{.device = kDevices.at(host), .port = 1}}, .transport = transport_});
    if (!io.ok()) {
      ADD_FAILURE() << io.error().message();
      std::abort();
    }
    ios_.at(host) = io.value().get();
    return std::move(io).value();
  }
  NetAddress address(std::size_t host, std::size_t rail) override {
    return parse_net_address(
               "10.77." + std::to_string(rail) + "." + std::to_string(host + 1) + ":0", 0)
        .value();
  }
  NetAddress foreign_address() override { return parse_net_address("192.0.2.1:0", 0).value(); }
  // The first packet to somebody waits for a question and its answer, for which both sides need
  // turns; then for the kernel's threads.
  void settle(PacketIo& receiver) override {
    std::vector<int> fds;
    receiver.append_wait_fds(fds);
    pollfd waiting{.fd = fds.at(0), .events = POLLIN, .revents = 0};
    // What is readable may be a question, or the first packet of many.
    int readable = 0;
    for (int turn = 0; turn < 1000 && readable < kReadableEnough; ++turn) {
      for (PacketIo* const io : ios_)
        if (io != nullptr) static_cast<void>(io->receive({}));
      if (turn % 16 != 15) continue;
      ::usleep(500);
      readable += ::poll(&waiting, 1, 1);
    }
  }

 private:
  static constexpr int kReadableEnough = 8;
  VerbsTransport transport_;
  std::array<PacketIo*, 2> ios_{};
};

std::string reason_to_skip() {
  for (const char* const device : kDevices)
    if (const auto port = VerbsPort::open({}, {.device = device, .port = 1}); !port.ok())
      return port.error().message();
  return {};
}

}  // namespace

std::vector<ProviderWorldInfo> provider_worlds() {
  return {{"verbs_ud", [] { return std::make_unique<VerbsWorld>(VerbsTransport::kUd); },
           reason_to_skip},
          {"verbs_uc", [] { return std::make_unique<VerbsWorld>(VerbsTransport::kUc); },
           reason_to_skip}};
}

}  // namespace spindrift::testing
