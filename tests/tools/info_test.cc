#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/info/devices.h"
#include "tools/info/host.h"
#include "tools/info/system.h"

namespace spindrift::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

nlohmann::json example_host() {
  return {{"version", "0.1.0"},
          {"wire_versions", {1, 1}},
          {"providers",
           {{{"name", "udp"}, {"summary", "sockets"}, {"is_available", true}, {"reason", ""}},
            {{"name", "dpdk"},
             {"summary", "ports"},
             {"is_available", false},
             {"reason", "not in this version"}}}},
          {"congestion_controls",
           {{{"name", "nscc"},
             {"summary", "network signals"},
             {"needs", {"ecn"}},
             {"parameters",
              {{{"name", "alpha"},
                {"unit", "ratio"},
                {"default", 0.5},
                {"min", 0.0},
                {"max", 1.0},
                {"help", "gain."}}}},
             {"sets",
              {{{"name", "paper"},
                {"summary", "as deployed"},
                {"source", "SIGCOMM"},
                {"values", {{"alpha", 0.5}}}}}}}}},
          {"path_selectors", {{{"name", "reps"}, {"summary", "recycled entropies"}}}},
          {"loss_rules", {{{"name", "rack"}, {"summary", "by time"}}}},
          {"plugins",
           {{{"file", "./liba.so"},
             {"congestion_controls", {"aimd"}},
             {"path_selectors", {"evens"}},
             {"error", ""}},
            {{"file", "./libb.so"},
             {"congestion_controls", nlohmann::json::array()},
             {"path_selectors", nlohmann::json::array()},
             {"error", "no such file"}}}},
          {"cpu", {{"model", "a cpu"}, {"features", {{"avx2", true}}}}},
          {"limits",
           {to_json(Limit{.name = "memlock", .value = 1, .wanted = 2, .why = "w", .remedy = "r"})}},
          {"interfaces",
           {{{"name", "eth0"},
             {"is_up", true},
             {"mtu", 9000},
             {"speed_mbps", 100000},
             {"addresses", {"10.0.0.1"}}}}}};
}

TEST(FormatHost, DevicesOfAProviderStandBelowIt) {
  nlohmann::json host = example_host();
  host["providers"][0]["devices"] =
      to_json({{.device = "rxe0 port 1", .name = "state", .value = "active"},
               {.device = "rxe0 port 1", .name = "MTU", .value = "1024 bytes"},
               {.device = "rxe1 port 1", .name = "state", .value = "down"}});
  EXPECT_EQ(host["providers"][0]["devices"].size(), 2U);
  EXPECT_THAT(format_host(host), HasSubstr("               rxe0 port 1\n"
                                           "                 state          active\n"
                                           "                 MTU            1024 bytes\n"
                                           "               rxe1 port 1\n"));
}

TEST(FormatHost, ShowsEveryPartOfTheDocument) {
  const std::string text = format_host(example_host());
  for (const char* part : {"udp",
                           "ready",
                           "absent",
                           "not in this version",
                           "nscc",
                           "needs ecn",
                           "alpha",
                           "0.5 ratio (0..1)",
                           "set=paper",
                           "as deployed (SIGCOMM)",
                           "reps",
                           "./liba.so offers aimd, evens",
                           "./libb.so is not loaded: no such file",
                           "a cpu",
                           "avx2: yes",
                           "LOW",
                           "wanted 2: r",
                           "eth0",
                           "MTU 9000",
                           "100 Gb/s",
                           "10.0.0.1"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

Limit limit(std::uint64_t value, std::uint64_t wanted) {
  return {.name = "n", .value = value, .wanted = wanted, .why = "w", .remedy = "r"};
}

TEST(Limit, OffersARemedyOnlyWhereSomethingIsMissing) {
  EXPECT_EQ(to_json(limit(5, 5))["remedy"], "");
  EXPECT_EQ(to_json(limit(4, 5))["remedy"], "r");
  EXPECT_EQ(to_json(limit(kUnlimited, 5))["value"], "unlimited");
}

TEST(DescribeInterfaces, FindsLoopback) {
  const nlohmann::json interfaces = describe_interfaces();
  const bool has_loopback = std::any_of(interfaces.begin(), interfaces.end(),
                                        [](const auto& entry) { return entry["name"] == "lo"; });
  EXPECT_TRUE(has_loopback);
}

TEST(DescribeLimits, NamesTheLimitsThatMatter) {
  const std::string text = describe_limits().dump();
  for (const char* name : {"net.core.rmem_max", "net.core.wmem_max", "nofile", "memlock"}) {
    EXPECT_THAT(text, HasSubstr(name));
  }
}

}  // namespace
}  // namespace spindrift::tools
