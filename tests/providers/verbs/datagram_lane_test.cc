// Queue pairs that packets travel by: what fails is connected anew. Needs two soft-RoCE devices,
// rxe0 and rxe1; the virtual machine has them.
#include "providers/verbs/datagram_lane.h"

#include <algorithm>
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "providers/monotonic_clock.h"
#include "providers/verbs/datagram_rail.h"
#include "providers/verbs/verbs_greeting.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kBytes = 100;

struct Side {
  Side(const char* device, const char* ip) {
    options.transport = VerbsTransport::kUc;
    options.lanes = 2;
    ports.push_back(VerbsPort::open(options, {.device = device, .port = 1}).value());
    pages = map_own_pages(4096).value();
    keys = Registrations::make(ports, pages.bytes(), IBV_ACCESS_LOCAL_WRITE).value();
    NetAddress address = parse_net_address(ip, 0).value();
    const Status opened = rail.open(ports, 0, options, address, keys);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    lane = rail.make_lane().value();
  }
  ~Side() { rail.end_lane(std::move(lane)); }
  Status connect(const Side& to) {
    const DatagramCard card = to.rail.card();
    return rail.connect(*lane, {.gid = card.gid,
                                .lid = card.lid,
                                .queue_pair = to.lane->queue_pair(),
                                .mtu = mtu_bytes(card.mtu),
                                .flow_label = 7,
                                .gid_index = rail.gid_index()});
  }
  void send(std::uint32_t slot) {
    const OutgoingDatagram one{
        .by = lane.get(), .slot = slot, .bytes = {pages.bytes().data(), kBytes}};
    rail.post({&one, 1});
  }
  // Slots that came back, once `count` have.
  std::vector<std::uint32_t> sent(std::size_t count) {
    std::vector<std::uint32_t> slots;
    until([&] {
      rail.take_sent(slots);
      return slots.size() >= count;
    });
    return slots;
  }
  // Which of its queue pairs the next packet came by; 0: none came.
  std::uint32_t received() {
    std::uint32_t by = 0;
    until([&] {
      ibv_wc done{};
      if (rail.poll({&done, 1}) == 0) return false;
      EXPECT_EQ(done.status, IBV_WC_SUCCESS);
      EXPECT_EQ(done.byte_len, kBytes);
      by = done.qp_num;
      rail.give_back(static_cast<std::uint32_t>(done.wr_id));
      return true;
    });
    return by;
  }
  template <class Done>
  static void until(Done is_done) {
    const Time end = monotonic_now() + std::chrono::seconds(10);
    while (!is_done() && monotonic_now() < end) {
    }
  }

  VerbsOptions options;
  VerbsPorts ports;
  Pages pages;
  Registrations keys;
  DatagramRail rail;
  std::unique_ptr<DatagramLane> lane;
};

TEST(DatagramLaneTest, WhatFailedCarriesPacketsAgainOnceConnectedAnew) {
  Side a("rxe0", "10.77.0.1:0");
  Side b("rxe1", "10.77.0.2:0");
  ASSERT_TRUE(a.connect(b).ok());
  ASSERT_TRUE(b.connect(a).ok());
  a.send(5);
  EXPECT_EQ(b.received(), b.lane->queue_pair());
  EXPECT_EQ(a.sent(1), std::vector<std::uint32_t>{5});
  EXPECT_FALSE(a.lane->has_failed());
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a.lane->pair(), &to, IBV_QP_STATE), 0);
  a.send(6);
  EXPECT_EQ(a.sent(1), std::vector<std::uint32_t>{6}) << "its slot comes back all the same";
  EXPECT_TRUE(a.lane->has_failed());
  ASSERT_TRUE(a.connect(b).ok());
  EXPECT_FALSE(a.lane->has_failed());
  // The other end has not been connected anew: a packet of any number begins a message.
  for (std::uint32_t slot = 7; slot < 10; ++slot) {
    a.send(slot);
    EXPECT_EQ(b.received(), b.lane->queue_pair()) << slot;
  }
  EXPECT_EQ(a.sent(3).size(), 3U);
}

}  // namespace
}  // namespace spindrift
