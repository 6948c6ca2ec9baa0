#include "collectives/greeting.h"

#include <gtest/gtest.h>

namespace spindrift::collectives {
namespace {

TEST(Greeting, StrangersAndOtherGroupsAreToldWhy) {
  const Greeting own{.nonce = 5, .from = 1, .to = 2, .ranks = 4, .slice_bytes = 1024};
  std::uint32_t from = 9;
  EXPECT_EQ(why_not(own, serialize(own), from), "");
  EXPECT_EQ(from, 1U);
  Greeting other = own;
  other.nonce = 6;
  EXPECT_NE(why_not(own, serialize(other), from).find("another job"), std::string::npos);
  other = own;
  other.to = 3;
  EXPECT_NE(why_not(own, serialize(other), from).find("calls rank 3"), std::string::npos);
  other = own;
  other.slice_bytes = 2048;
  EXPECT_NE(why_not(own, serialize(other), from).find("slices"), std::string::npos);
  const std::vector<std::byte> wire = serialize(own);
  for (std::size_t length = 0; length < wire.size(); ++length)
    EXPECT_NE(why_not(own, std::span(wire).first(length), from), "") << length;
}

}  // namespace
}  // namespace spindrift::collectives
