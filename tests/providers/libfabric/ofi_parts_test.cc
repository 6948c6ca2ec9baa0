// What of the libfabric provider needs no libfabric: addresses, order, room.
#include <algorithm>
#include <array>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "providers/libfabric/ofi_arrivals.h"
#include "providers/libfabric/ofi_message.h"
#include "providers/libfabric/ofi_options.h"
#include "providers/libfabric/ofi_room.h"
#include "transport/base/rng.h"

namespace spindrift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string host_of(std::string_view text) {
  const auto address = parse_ofi_address(text);
  if (!address.ok()) return address.error().message();
  return address.value().provider + " " +
         (address.value().host ? address.value().host->to_string() : "-");
}

TEST(OfiAddress, NamesAProviderAPlaceOrBoth) {
  EXPECT_EQ(host_of(""), " -");
  EXPECT_EQ(host_of("net"), "net -");
  EXPECT_EQ(host_of("tcp;ofi_rxm"), "tcp;ofi_rxm -");
  EXPECT_EQ(host_of("net@10.0.0.1:99"), "net 10.0.0.1:99");
  EXPECT_EQ(host_of("tcp;ofi_rxm@[::1]:99"), "tcp;ofi_rxm [::1]:99");
  EXPECT_EQ(host_of("efa@10.0.0.1"), "efa 10.0.0.1:4793");
  EXPECT_EQ(host_of("10.0.0.1:5"), " 10.0.0.1:5");
  EXPECT_THAT(host_of("@10.0.0.1"), HasSubstr("no name of a provider"));
  EXPECT_THAT(host_of("net@300.0.0.1:x"), HasSubstr("write ofi://PROVIDER@IP:PORT"));
}

Result<OfiOptions> options_of(std::string_view url) {
  return parse_ofi_options(parse_url(url).value());
}

TEST(OfiOptions, AreCheckedByName) {
  const auto good =
      options_of("ofi://net@10.0.0.1?domain=eth0&buffers=64&read_from=4096&poll_us=50");
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ(good.value().provider, "net");
  EXPECT_THAT(good.value().domains, ElementsAre("eth0"));
  EXPECT_EQ(good.value().buffers, 64U);
  EXPECT_EQ(good.value().read_from, 4096U);
  EXPECT_EQ(good.value().poll_us, 50U);
  EXPECT_THAT(options_of("ofi://net?buffers=1").error().message(), HasSubstr("from 40 to 4096"));
  EXPECT_THAT(options_of("ofi://net?colour=red").error().message(), HasSubstr("there are: domain"));
  EXPECT_THAT(options_of("ofi://net,shm").error().message(), HasSubstr("not both net and shm"));
  EXPECT_TRUE(options_of("ofi://").ok());
  const auto rails = options_of("ofi://net?domain=eth0,eth1&silent_ms=100");
  ASSERT_TRUE(rails.ok()) << rails.error().message();
  EXPECT_THAT(rails.value().domains, ElementsAre("eth0", "eth1"));
  EXPECT_EQ(rails.value().silent_ms, 100U);
  EXPECT_THAT(options_of("ofi://net?domain=a,a").error().message(), HasSubstr("names a twice"));
  EXPECT_THAT(options_of("ofi://net?domain=a,").error().message(), HasSubstr("an empty name"));
  EXPECT_THAT(options_of("ofi://net?domain=a,b,c,d,e").error().message(), HasSubstr("at most 4"));
  for (const OfiOptionInfo& info : ofi_option_infos())
    EXPECT_NE(info.help, "") << info.name;
}

TEST(OfiArrivals, AreTakenInTheOrderOfPostingWhateverComesFirst) {
  Rng rng(5);
  for (const std::uint32_t window : {1U, 3U, 48U, 64U}) {
    OfiArrivals<int*> arrivals(window);
    std::vector<int> items(1000);
    std::iota(items.begin(), items.end(), 0);
    std::uint32_t sent = 0;
    std::uint32_t seen = 0;
    std::vector<std::uint32_t> under_way;
    while (seen < items.size()) {
      while (sent < items.size() && sent - arrivals.released() < window)
        under_way.push_back(sent++);
      for (std::size_t i = under_way.size(); i != 0 && rng.chance(0.7); --i) {
        std::swap(under_way[rng.below(under_way.size())], under_way.back());
        const std::uint32_t number = under_way.back();
        under_way.pop_back();
        ASSERT_TRUE(arrivals.put(number, &items[number]));
      }
      while (arrivals.has_next() && rng.chance(0.8))
        ASSERT_EQ(*arrivals.take(), static_cast<int>(seen++));
      while (arrivals.held() != 0 && rng.chance(0.8)) {
        const auto oldest = static_cast<int>(arrivals.released());
        ASSERT_EQ(*arrivals.release(), oldest);
      }
    }
  }
}

TEST(OfiArrivals, RefuseWhatNoHonestPeerSends) {
  int item = 0;
  OfiArrivals<int*> arrivals(4);
  EXPECT_FALSE(arrivals.put(4, &item));  // beyond the room that it has
  EXPECT_TRUE(arrivals.put(2, &item));
  EXPECT_FALSE(arrivals.put(2, &item));  // again
  EXPECT_TRUE(arrivals.put(0, &item));
  EXPECT_EQ(arrivals.arrived(), 1U);
  EXPECT_EQ(arrivals.take(), &item);
  EXPECT_FALSE(arrivals.put(0, &item));  // held
  arrivals.release();
  EXPECT_FALSE(arrivals.put(0, &item));  // long gone
  EXPECT_TRUE(arrivals.put(4, &item));
  int given_back = 0;
  arrivals.clear([&](int*) { ++given_back; });
  EXPECT_EQ(given_back, 2);
  EXPECT_FALSE(arrivals.has_next());
}

TEST(OfiArrivals, TellWhatHasComeBefore) {
  int item = 0;
  OfiArrivals<int*> arrivals(4);
  EXPECT_FALSE(arrivals.has_had(0));
  EXPECT_TRUE(arrivals.put(0, &item));
  EXPECT_TRUE(arrivals.put(2, &item));
  EXPECT_TRUE(arrivals.has_had(0));
  EXPECT_FALSE(arrivals.has_had(1));
  EXPECT_TRUE(arrivals.has_had(2));
  EXPECT_FALSE(arrivals.has_had(4));
  arrivals.take();
  EXPECT_EQ(arrivals.oldest_held(), &item);
  arrivals.release();
  EXPECT_TRUE(arrivals.has_had(0));  // long gone
  EXPECT_TRUE(arrivals.has_had(UINT32_MAX));
}

TEST(OfiRoom, WhatWasShownAndLostIsNotWaitedFor) {
  OfiRoom us;
  OfiRoom them;
  us.open(48, 48);
  them.open(48, 48);
  while (us.may_show())
    us.on_show();
  us.forget_shown();  // by a lane that failed
  ASSERT_TRUE(us.may_show());
  const std::uint16_t serial = us.shown();
  us.on_show();
  them.on_shown_taken(serial);
  EXPECT_EQ(them.heard(), us.shown());
  them.on_shown_taken(0);  // late, or again
  EXPECT_EQ(them.heard(), us.shown());
  EXPECT_TRUE(us.on_told(0, them.heard()));
  EXPECT_TRUE(us.on_told(0, 1));  // said long before
}

TEST(OfiRoom, EndsWithWhatThePeerGaveAndReturnsAsItTells) {
  OfiRoom room;
  room.open(48, 3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(room.has_room());
    room.on_sent();
  }
  EXPECT_FALSE(room.has_room());
  EXPECT_TRUE(room.on_told(2, 0));
  EXPECT_TRUE(room.has_room());
  EXPECT_TRUE(room.on_told(1, 0));   // overtaken
  EXPECT_FALSE(room.on_told(4, 0));  // more than was sent
  EXPECT_FALSE(room.on_told(2, 1));
}

// Two sides that show whenever they may, over a medium that delivers late: neither is ever stuck.
TEST(OfiRoom, BothSidesCanAlwaysShowInTheEnd) {
  Rng rng(9);
  struct Side {
    OfiRoom room;
    std::vector<std::uint16_t> coming;  // what the other told when it showed
  };
  std::array<Side, 2> sides;
  for (Side& side : sides)
    side.room.open(48, 48);
  std::array<std::uint32_t, 2> shown{};
  for (int turn = 0; turn < 200000; ++turn) {
    const std::size_t who = rng.below(2);
    Side& me = sides[who];
    Side& other = sides[1 - who];
    if (!me.coming.empty() && rng.chance(0.5)) {
      ASSERT_TRUE(me.room.on_told(0, me.coming.front()));
      me.coming.erase(me.coming.begin());
      me.room.on_shown_taken();
    }
    const bool wants = rng.chance(0.9) || me.room.owes_room(0);
    if (!wants || !me.room.may_show()) continue;
    ASSERT_LT(other.coming.size(), kShownRoom);
    other.coming.push_back(me.room.heard());
    me.room.on_telling(0);
    me.room.on_show();
    ++shown[who];
  }
  EXPECT_GT(shown[0], 10000U);
  EXPECT_GT(shown[1], 10000U);
}

TEST(OfiMessage, FitsWhatProvidersInject) {
  // 8 bytes of a SEND behind its record of 24, and a status: within the 64 of ofi_rxm.
  EXPECT_LE(sizeof(OfiHead) + 24 + 8, 64U);
  EXPECT_LE(sizeof(OfiShown), 64U);
}

}  // namespace
}  // namespace spindrift
