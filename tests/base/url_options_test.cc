#include "transport/base/url_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

TEST(UrlOptions, AreTheTunablesOfTheirProvider) {
  const Url url = parse_url("shm://name?ring_bytes=128K&single_copy=off").value();
  Settings settings;
  ASSERT_TRUE(take_url_options(url, TunableScope::kShm, settings).ok());
  EXPECT_EQ(settings.shm.ring_bytes, 131072U);
  EXPECT_EQ(settings.shm.single_copy, SingleCopy::kOff);
}

TEST(UrlOptions, UnknownOnesAreRefusedWithTheListAndWrongOnesWithTheBounds) {
  Settings settings;
  const auto refusal = [&](std::string_view text) {
    const Status status = take_url_options(parse_url(text).value(), TunableScope::kUdp, settings);
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_THAT(refusal("udp://?speed=9"), testing::HasSubstr("gso, gro, rcvbuf, sndbuf"));
  EXPECT_THAT(refusal("udp://?rcvbuf=1"), testing::HasSubstr("udp option rcvbuf=1: "));
}

TEST(UrlOptions, WhatTheUrlDoesNotSayIsAdded) {
  Url url = parse_url("udp://?gso=0").value();
  add_url_options(Settings{.udp = {.has_gro = false}}, TunableScope::kUdp, url);
  Settings settings;
  ASSERT_TRUE(take_url_options(url, TunableScope::kUdp, settings).ok());
  EXPECT_FALSE(settings.udp.has_gso);
  EXPECT_FALSE(settings.udp.has_gro);
}

}  // namespace
}  // namespace spindrift
