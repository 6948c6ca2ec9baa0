// Which GID is chosen, and what is said about it.
#include "providers/verbs/gid_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using testing::HasSubstr;

NetAddress address(const std::string& text) {
  return parse_net_address(text, 0).value();
}

GidEntry entry(std::uint32_t index, GidType type, const std::string& ip,
               std::uint8_t prefix_bits = 0) {
  return {.index = index,
          .gid = gid_of(address(ip)),
          .type = type,
          .interface = "eth0",
          .prefix_bits = prefix_bits};
}

// What a card with an IPv4 and an IPv6 address shows.
std::vector<GidEntry> usual_table() {
  return {entry(0, GidType::kRoceV1, "[fe80::1]"), entry(1, GidType::kRoceV2, "[fe80::1]"),
          entry(2, GidType::kRoceV1, "10.0.0.1", 24), entry(3, GidType::kRoceV2, "10.0.0.1", 24),
          entry(4, GidType::kRoceV2, "[fd00::1]", 64)};
}

TEST(GidChoiceTest, GidsAreAddressesAndBack) {
  const GidBytes gid = gid_of(address("10.1.2.3"));
  EXPECT_EQ(gid[10], 0xff);
  EXPECT_EQ(gid[12], 10);
  EXPECT_TRUE(address_of(gid).is_same_host(address("10.1.2.3")));
  EXPECT_TRUE(address_of(gid_of(address("[fd00::7]"))).is_same_host(address("[fd00::7]")));
  EXPECT_TRUE(is_link_local(gid_of(address("[fe80::1]"))));
  EXPECT_TRUE(is_link_local(gid_of(address("169.254.1.1"))));
  EXPECT_FALSE(is_link_local(gid));
}

TEST(GidChoiceTest, TheRoutableEntryOfTheRoutedProtocolIsChosenAndTheOthersAreExplained) {
  const auto chosen = choose_gid(usual_table(), {}, "mlx5_0 port 1");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen.value().entry.index, 3U);
  EXPECT_EQ(chosen.value().reason,
            "GID 3 (RoCE v2, 10.0.0.1, eth0): 0 is not RoCE v2; 1 is link-local; 2 is not RoCE v2; "
            "4 is IPv6");
}

TEST(GidChoiceTest, EveryEntryHasAScoreAndWhatItLacks) {
  const std::vector<GidEntry> table = usual_table();
  const GidRank best = rank_gid(table[3], {});
  EXPECT_EQ(best.score, kBestGidScore);
  EXPECT_EQ(best.lacks, "");
  EXPECT_EQ(to_string(table[3]), "GID 3 (RoCE v2, 10.0.0.1, eth0)");
  const GidRank worst = rank_gid(table[0], {});
  EXPECT_EQ(worst.lacks, "not RoCE v2, link-local, IPv6");
  EXPECT_LT(worst.score, rank_gid(table[1], {}).score);
  EXPECT_LT(rank_gid(table[1], {}).score, rank_gid(table[4], {}).score);
}

TEST(GidChoiceTest, ThePeersFamilyDecides) {
  const auto chosen = choose_gid(usual_table(), {.peer = address("[fd00::2]")}, "mlx5_0 port 1");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen.value().entry.index, 4U);
  EXPECT_THAT(chosen.value().reason, HasSubstr("3 is another family than the peer's"));
}

TEST(GidChoiceTest, ThePeersNetworkDecidesBetweenRoutableOnes) {
  std::vector<GidEntry> table = usual_table();
  table.push_back(entry(5, GidType::kRoceV2, "10.0.9.1", 24));
  const auto chosen = choose_gid(table, {.peer = address("10.0.9.77")}, "mlx5_0 port 1");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen.value().entry.index, 5U);
  EXPECT_THAT(chosen.value().reason, HasSubstr("3 is another network than the peer's"));
}

TEST(GidChoiceTest, TablesWithoutIpv4AreNoTrouble) {
  const std::vector<GidEntry> table = {entry(0, GidType::kRoceV1, "[fe80::1]"),
                                       entry(1, GidType::kRoceV2, "[fe80::1]"),
                                       entry(6, GidType::kRoceV2, "[fd00::1]", 64)};
  EXPECT_EQ(choose_gid(table, {}, "bnxt_re0 port 1").value().entry.index, 6U);
  const auto best_of_bad = choose_gid(std::span(table).first(2), {}, "bnxt_re0 port 1");
  EXPECT_EQ(best_of_bad.value().entry.index, 1U);
}

TEST(GidChoiceTest, AnInterfaceThatIsDownComesLast) {
  std::vector<GidEntry> table = {entry(3, GidType::kRoceV2, "10.0.0.1", 24),
                                 entry(5, GidType::kRoceV2, "10.0.1.1", 24)};
  table[0].is_interface_up = false;
  const auto chosen = choose_gid(table, {}, "mlx5_0 port 1");
  EXPECT_EQ(chosen.value().entry.index, 5U);
  EXPECT_THAT(chosen.value().reason, HasSubstr("3 is of an interface that is down"));
}

TEST(GidChoiceTest, TheUserHasTheLastWord) {
  const auto by_index =
      choose_gid(usual_table(), {.index = 1, .origin = "NCCL_IB_GID_INDEX=1"}, "mlx5_0 port 1");
  ASSERT_TRUE(by_index.ok());
  EXPECT_EQ(by_index.value().entry.index, 1U);
  EXPECT_THAT(by_index.value().reason, HasSubstr("NCCL_IB_GID_INDEX=1 says so"));
  const auto by_address =
      choose_gid(usual_table(), {.address = address("10.0.0.1"), .origin = "gid=10.0.0.1"}, "x");
  EXPECT_EQ(by_address.value().entry.index, 3U);
  const auto none = choose_gid(usual_table(), {.index = 9, .origin = "gid=9"}, "mlx5_0 port 1");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message(),
              HasSubstr("mlx5_0 port 1 has no GID for gid=9; it has: GID 0"));
  EXPECT_FALSE(choose_gid({}, {}, "mlx5_0 port 1").ok());
}

}  // namespace
}  // namespace spindrift
