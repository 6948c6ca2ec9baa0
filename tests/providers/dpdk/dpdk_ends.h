#pragma once
// Two endpoints over a pair of DPDK devices in one process, connected, and work between them.
#include <array>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "spindrift/endpoint.h"
#include "spindrift/open.h"

#include "providers/dpdk/dpdk_io.h"
#include "tests/providers/dpdk/dpdk_pair.h"

namespace spindrift::testing {

class DpdkEnds {
 public:
  static constexpr std::size_t kMemoryBytes = 4U << 20U;
  static constexpr std::size_t kAhead = 16;  // requests under way

  explicit DpdkEnds(DpdkPair& pair) {
    for (const std::size_t host : {0U, 1U}) {
      const DeviceOptions options = pair.options(host);
      auto io = std::move(open_dpdk({&options, 1})).value();
      EXPECT_TRUE(io->add_rail(dpdk_address(4, host, 0)).ok());
      End& end = ends_.at(host);
      end.endpoint = std::move(Endpoint::create(std::move(io), {}, builtin_registry())).value();
      end.region = end.endpoint->register_memory(end.memory, kAllAccess).value();
    }
    pair.connect();
  }

  void connect() {
    Endpoint& near = *ends_[0].endpoint;
    Endpoint& far = *ends_[1].endpoint;
    ASSERT_TRUE(far.listen("dpdk://10.77.0.2:4793").ok());
    ends_[0].conn = near.connect("dpdk://10.77.0.2:4793").value();
    bool is_open = false;
    for (int turns = 0; turns < 10'000'000 && !is_open; ++turns) {
      near.progress();
      far.progress();
      ConnEvent event;
      if (far.take_event(ConnEvent::Kind::kRequest, event)) {
        ends_[1].conn = event.conn;
        ASSERT_TRUE(far.accept(event.conn).ok());
      }
      is_open = near.take_event(ConnEvent::Kind::kEstablished, event);
    }
    ASSERT_TRUE(is_open);
  }

  // `count` of them from host 0, and for SENDs as many RECEIVEs at host 1.
  void run(OpKind kind, std::size_t count, std::size_t bytes) {
    End& near = ends_[0];
    End& far = ends_[1];
    near.done = far.done = 0;
    std::size_t posted = 0;
    std::size_t receives = 0;
    const bool needs_receives = kind == OpKind::kSend;
    for (int turns = 0; turns < 50'000'000; ++turns) {
      const std::size_t arrived = needs_receives ? far.done : near.done;
      if (near.done == count && arrived == count) break;
      while (needs_receives && receives < count && receives < far.done + 2 * kAhead &&
             post(far, OpKind::kReceive, receives, bytes))
        ++receives;
      const bool has_receive = !needs_receives || posted < receives;
      if (posted < count && posted < arrived + kAhead && has_receive)
        posted += post(near, kind, posted, bytes) ? 1 : 0;
      near.turn();
      far.turn();
    }
    EXPECT_EQ(near.done, count);
  }

  Endpoint& endpoint(std::size_t host) { return *ends_.at(host).endpoint; }
  std::span<std::byte> memory(std::size_t host) { return ends_.at(host).memory; }

 private:
  struct End {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::byte> memory = std::vector<std::byte>(kMemoryBytes);
    MemoryRegion region{};
    ConnId conn{};
    std::size_t done = 0;

    void turn() {
      std::array<Completion, 64> completions{};
      const std::size_t count = endpoint->poll(completions);
      for (const Completion& one : std::span(completions).first(count))
        EXPECT_EQ(one.status, OpStatus::kOk);
      done += count;
    }
  };

  bool post(End& end, OpKind kind, std::size_t number, std::size_t bytes) {
    const std::size_t place = number % kAhead * bytes;
    const Sge local = sge_of(end.region, place, static_cast<std::uint32_t>(bytes));
    const WorkRequest work{.conn = end.conn,
                           .kind = kind,
                           .local = {&local, 1},
                           .remote_key = ends_[1].region.remote.key,
                           .remote_offset = kind == OpKind::kReceive ? 0 : place};
    return end.endpoint->post({&work, 1}).accepted == 1;
  }

  std::array<End, 2> ends_;
};

}  // namespace spindrift::testing
