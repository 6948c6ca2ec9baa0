#include "tests/contract/provider_world.h"

#include <cstdio>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "spindrift/version.h"

#include "providers/memory/memory_network.h"
#include "providers/module/export_packet_io.h"
#include "providers/module/foreign_module.h"
#include "providers/udp/udp_io.h"
#include "providers/wrap/fault_io.h"
#include "providers/wrap/pcap_io.h"

namespace spindrift::testing {
namespace {

NetAddress numeric(const std::string& text) {
  return parse_net_address(text, 0).value();
}

class UdpWorld final : public ProviderWorld {
 public:
  UdpWorld(UdpOptions options, std::uint8_t family) : options_(options), family_(family) {}

  std::unique_ptr<PacketIo> open(std::size_t) override {
    return std::move(open_udp(options_)).value();
  }
  NetAddress address(std::size_t, std::size_t rail) override {
    if (family_ == 6) return numeric("[::1]:0");
    return numeric(rail == 0 ? "127.0.0.1:0" : "127.0.0.2:0");
  }
  NetAddress foreign_address() override {
    return numeric(family_ == 4 ? "192.0.2.1:0" : "[2001:db8::1]:0");
  }
  // Loopback delivers within the sender's system call: what is not there now never comes.
  void settle(PacketIo& receiver) override {
    std::vector<int> fds;
    receiver.append_wait_fds(fds);
    std::vector<pollfd> waits;
    for (const int fd : fds)
      waits.push_back(pollfd{fd, POLLIN, 0});
    poll(waits.data(), waits.size(), 20);
  }

 private:
  UdpOptions options_;
  std::uint8_t family_;
};

class MemoryWorld : public ProviderWorld {
 public:
  explicit MemoryWorld(bool copies_on_send) : copies_on_send_(copies_on_send) {}

  std::unique_ptr<PacketIo> open(std::size_t host) override {
    MemoryHostConfig config;
    config.addresses = {address(host, 0), address(host, 1)};
    config.copies_on_send = copies_on_send_;
    return network_.add_host(config);
  }
  NetAddress address(std::size_t host, std::size_t rail) override {
    return numeric("10." + std::to_string(rail) + ".0." + std::to_string(host + 1) + ":0");
  }
  NetAddress foreign_address() override { return numeric("10.9.9.9:0"); }
  void settle(PacketIo&) override {
    while (network_.next_event() != kNever)
      network_.advance_to(network_.next_event());
  }

 private:
  bool copies_on_send_;
  MemoryNetwork network_{MemoryNetworkConfig{}};
};

class FaultWorld final : public MemoryWorld {
 public:
  FaultWorld() : MemoryWorld(false) {}
  std::unique_ptr<PacketIo> open(std::size_t host) override {
    return wrap_with_faults(MemoryWorld::open(host), FaultConfig{});
  }
};

// As if the memory network were in a shared object: all goes through a ForeignPacketIo.
class ModuleWorld final : public MemoryWorld {
 public:
  ModuleWorld() : MemoryWorld(false) {}
  std::unique_ptr<PacketIo> open(std::size_t host) override {
    inside() = MemoryWorld::open(host).release();
    ProviderModule module;
    module.library_version = kVersion.data();
    module.name = "memory";
    module.probe = [](const ModuleErrorSink*) { return true; };
    module.open = [](const char*, std::size_t, const ModuleErrorSink*) -> void* {
      return inside();
    };
    module.packet_io = packet_io_functions();
    EXPECT_TRUE(check_provider_module(&module, "memory").ok());
    return std::move(open_packets_of(module, "memory://")).value();
  }

 private:
  static PacketIo*& inside() {
    static PacketIo* io = nullptr;
    return io;
  }
};

class PcapWorld final : public MemoryWorld {
 public:
  PcapWorld() : MemoryWorld(false) {}
  ~PcapWorld() override {
    for (const std::string& path : paths_)
      std::remove(path.c_str());
  }
  std::unique_ptr<PacketIo> open(std::size_t host) override {
    const std::string path = ::testing::TempDir() + "/contract_" + std::to_string(getpid()) + "_" +
                             std::to_string(host) + ".pcap";
    paths_.push_back(path);
    return std::move(wrap_with_capture(MemoryWorld::open(host), path)).value();
  }

 private:
  std::vector<std::string> paths_;
};

std::string needs_ipv6() {
  const auto io = open_udp(UdpOptions{});
  if (!io.ok()) return io.error().message();
  const auto rail = io.value()->add_rail(numeric("[::1]:0"));
  return rail.ok() ? std::string() : "no IPv6 loopback here: " + rail.error().message();
}

template <class World, class... Arguments>
std::function<std::unique_ptr<ProviderWorld>()> makes(Arguments... arguments) {
  return [=] { return std::unique_ptr<ProviderWorld>(std::make_unique<World>(arguments...)); };
}

UdpOptions without_offloads() {
  UdpOptions options;
  options.has_gso = false;
  options.has_gro = false;
  return options;
}

UdpOptions without_gro() {
  UdpOptions options;
  options.has_gro = false;
  return options;
}

}  // namespace

std::vector<ProviderWorldInfo> provider_worlds() {
  return {
      {"udp_ipv4", makes<UdpWorld>(UdpOptions{}, std::uint8_t{4})},
      {"udp_ipv6", makes<UdpWorld>(UdpOptions{}, std::uint8_t{6}), needs_ipv6},
      {"udp_plain", makes<UdpWorld>(without_offloads(), std::uint8_t{4})},
      {"udp_gso_only", makes<UdpWorld>(without_gro(), std::uint8_t{4})},
      {"memory", makes<MemoryWorld>(true)},
      {"memory_in_place", makes<MemoryWorld>(false)},
      {"fault", makes<FaultWorld>()},
      {"pcap", makes<PcapWorld>()},
      {"module", makes<ModuleWorld>()},
  };
}

}  // namespace spindrift::testing
