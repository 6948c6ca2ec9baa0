// The table of tunables and their values; tunable_table.cc and tunable_values.cc.
#include "spindrift/tunables.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::uint64_t number(std::string_view name, std::string_view text) {
  const Result<TunableValue> value = parse_value(*find_tunable(name), text);
  EXPECT_TRUE(value.ok()) << name << " = " << text;
  return value.ok() ? value.value().number : 0;
}

std::string refusal(std::string_view name, std::string_view text) {
  const Result<TunableValue> value = parse_value(*find_tunable(name), text);
  EXPECT_FALSE(value.ok()) << name << " = " << text;
  return value.ok() ? "" : value.error().message();
}

TEST(Tunables, HaveNamesOfTheirOwnAndASentence) {
  std::set<std::string_view> names;
  for (const Tunable& tunable : tunables()) {
    EXPECT_TRUE(names.insert(tunable.name).second) << tunable.name;
    EXPECT_FALSE(tunable.help.empty()) << tunable.name;
    EXPECT_LE(tunable.lowest, tunable.highest) << tunable.name;
    EXPECT_EQ(tunable.get == nullptr, tunable.scope == TunableScope::kEnvironment);
  }
}

TEST(Tunables, DefaultsLieWithinTheirBounds) {
  EXPECT_TRUE(check_bounds(EndpointConfig{}).ok());
  EXPECT_TRUE(check_bounds(ConnectOptions{}).ok());
  EXPECT_TRUE(check_bounds(ListenOptions{}).ok());
  EXPECT_TRUE(check_bounds(UdpOptions{}).ok());
  EXPECT_TRUE(check_bounds(ShmOptions{}).ok());
}

TEST(Tunables, DefaultsReadBackAsThemselves) {
  const Settings defaults;
  for (const Tunable& tunable : tunables()) {
    if (tunable.get == nullptr) continue;
    const TunableValue value = tunable.get(defaults);
    const auto again = parse_value(tunable, format_value(tunable, value));
    ASSERT_TRUE(again.ok()) << tunable.name << " = " << format_value(tunable, value);
    EXPECT_EQ(again.value().number, value.number) << tunable.name;
    EXPECT_EQ(again.value().text, value.text) << tunable.name;
  }
}

TEST(Tunables, SetTheFieldTheyReadAndNoOther) {
  for (const Tunable& tunable : tunables()) {
    if (tunable.get == nullptr) continue;
    Settings settings;
    const std::uint64_t other = tunable.get(settings).number == tunable.lowest
                                    ? tunable.lowest + tunable.multiple_of
                                    : tunable.lowest;
    tunable.set(settings, {.number = other, .text = "10.0.0.1,10.1.0.1"});
    const TunableValue now = tunable.get(settings);
    EXPECT_TRUE(now.number == other || now.text == "10.0.0.1,10.1.0.1") << tunable.name;
    const Settings defaults;
    for (const Tunable& another : tunables()) {
      if (another.get == nullptr || another.name == tunable.name) continue;
      EXPECT_EQ(another.get(settings).number, another.get(defaults).number) << tunable.name;
      EXPECT_EQ(another.get(settings).text, another.get(defaults).text) << tunable.name;
    }
  }
}

TEST(Tunables, TakeUnits) {
  EXPECT_EQ(number("burst_bytes", "64K"), 65536U);
  EXPECT_EQ(number("burst_bytes", "1MiB"), 1048576U);
  EXPECT_EQ(number("completion_queue", "64K"), 65536U);
  EXPECT_EQ(number("rto_min", "200us"), 200'000U);
  EXPECT_EQ(number("rto_min", "1.5ms"), 1'500'000U);
  EXPECT_EQ(number("keepalive", "0"), 0U);
  EXPECT_EQ(number("connect_timeout", "1h"), 3'600'000'000'000U);
  EXPECT_EQ(number("link_rate", "25G"), 25'000'000'000U);
  EXPECT_EQ(number("link_rate", "100Gbps"), 100'000'000'000U);
  EXPECT_EQ(number("has_guardian", "yes"), 1U);
  EXPECT_EQ(number("crc", "off"), 2U);
  EXPECT_EQ(number("seed", "18446744073709551615"), UINT64_MAX);
}

TEST(Tunables, RefuseWhatIsWrittenWrong) {
  EXPECT_THAT(refusal("path_count", "many"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("path_count", "1.5"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("path_count", "-1"), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("path_count", ""), HasSubstr("a whole number"));
  EXPECT_THAT(refusal("rto_min", "200"), HasSubstr("with its unit"));
  EXPECT_THAT(refusal("rto_min", "200 parsecs"), HasSubstr("with its unit"));
  EXPECT_THAT(refusal("link_rate", "fast"), HasSubstr("bits per second"));
  EXPECT_THAT(refusal("has_guardian", "2"), HasSubstr("on or off"));
  EXPECT_THAT(refusal("crc", "maybe"), HasSubstr("auto, on or off"));
  EXPECT_THAT(refusal("seed", "18446744073709551616"), HasSubstr("a whole number"));
}

TEST(Tunables, RefuseWhatIsOutOfBoundsAndNameThem) {
  EXPECT_THAT(refusal("path_count", "257"), HasSubstr("1..256"));
  EXPECT_THAT(refusal("path_count", "0"), HasSubstr("1..256"));
  EXPECT_THAT(refusal("window_packets", "129"), HasSubstr("a multiple of 128 in 128..32640"));
  EXPECT_THAT(refusal("rto_min", "11s"), HasSubstr("1us .. 10s"));
}

TEST(Tunables, ChecksNameTheFieldItsValueAndItsBounds) {
  EXPECT_EQ(check_bounds(EndpointConfig{.max_reads = 0}).error().message(),
            "EndpointConfig::max_reads is 0; it must be 1..1024");
  EXPECT_EQ(check_bounds(ConnectOptions{.dscp = 64}).error().message(),
            "ConnectOptions::dscp is 64; it must be 0..63");
  EXPECT_EQ(check_bounds(ConnectOptions{.keepalive = -milliseconds(1)}).error().message(),
            "ConnectOptions::keepalive is -1000000ns; it must be 0 .. 1h");
  EXPECT_EQ(check_bounds(ConnectOptions{.default_timeout = Duration(-1)}).error().message(),
            "ConnectOptions::default_timeout is -1ns; it must be 0 or more");
  EXPECT_EQ(check_bounds(ConnectOptions{.rto_min = microseconds(20), .rto_max = microseconds(10)})
                .error()
                .message(),
            "ConnectOptions::rto_max is 10us; it must not be below rto_min, 20us");
  EXPECT_EQ(check_bounds(ListenOptions{.backlog = 0}).error().message(),
            "ListenOptions::backlog is 0; it must be 1..65535");
}

}  // namespace
}  // namespace spindrift
