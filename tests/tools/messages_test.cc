#include "tools/perf/messages.h"

#include <gtest/gtest.h>

namespace spindrift::perf {
namespace {

using nlohmann::json;

SessionSetup example_setup() {
  return SessionSetup{.shape = {.operation = Operation::kRead,
                                .sizes = {2, 65536},
                                .depth = 7,
                                .connections = 3,
                                .has_verify = true,
                                .is_bidirectional = true},
                      .transport = {.congestion_control = "dcqcn:g=0.004",
                                    .path_selector = "single",
                                    .path_count = 5,
                                    .burst_bytes = 4096,
                                    .max_payload_mtu = 1024,
                                    .crc = CrcChoice::kOn,
                                    .dscp = 26,
                                    .deadline = std::chrono::milliseconds(20)},
                      .region = {.key = 0x1122334455667788, .bytes = 4096, .rights = kAllAccess}};
}

TEST(SessionSetup, SurvivesARoundTrip) {
  const SessionSetup setup = example_setup();
  const Result<SessionSetup> parsed = parse_setup(json::parse(to_json(setup).dump()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const SessionSetup& back = parsed.value();
  EXPECT_EQ(back.shape.operation, Operation::kRead);
  EXPECT_EQ(back.shape.sizes, setup.shape.sizes);
  EXPECT_EQ(back.shape.depth, 7u);
  EXPECT_EQ(back.shape.connections, 3u);
  EXPECT_TRUE(back.shape.has_verify);
  EXPECT_TRUE(back.shape.is_bidirectional);
  EXPECT_EQ(back.transport.congestion_control, "dcqcn:g=0.004");
  EXPECT_EQ(back.transport.path_selector, "single");
  EXPECT_EQ(back.transport.path_count, 5u);
  EXPECT_EQ(back.transport.burst_bytes, 4096u);
  EXPECT_EQ(back.transport.max_payload_mtu, 1024u);
  EXPECT_EQ(back.transport.crc, CrcChoice::kOn);
  EXPECT_EQ(back.transport.dscp, 26);
  EXPECT_EQ(back.transport.deadline, std::chrono::milliseconds(20));
  EXPECT_EQ(back.region.key, setup.region.key);
  EXPECT_EQ(back.region.bytes, setup.region.bytes);
}

TEST(SessionSetup, OfAnotherVersionIsRefusedNamingBoth) {
  json message = to_json(example_setup());
  message["version"] = 99u;
  const Result<SessionSetup> parsed = parse_setup(message);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message().find("99"), std::string::npos);
}

TEST(SessionSetup, WithAnyMemberMissingOrOfAnotherTypeIsAnErrorAndNoException) {
  const json good = to_json(example_setup());
  for (const auto& item : good.items()) {
    for (const json& wrong :
         {json(), json("x"), json(-1), json(1e30), json::array({"x"}), json::object()}) {
      json message = good;
      message[item.key()] = wrong;
      (void)parse_setup(message);
    }
    json message = good;
    message.erase(item.key());
    (void)parse_setup(message);
  }
  for (const char* key : {"operation", "sizes", "connections", "region"}) {
    json message = good;
    message.erase(key);
    EXPECT_FALSE(parse_setup(message).ok()) << key;
  }
}

TEST(SessionSetup, ThatNamesAFileIsRefused) {
  for (const char* key : {"congestion_control", "path_selector"}) {
    json message = to_json(example_setup());
    message["transport"][key] = "./libevil.so";
    const Result<SessionSetup> parsed = parse_setup(message);
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_NE(parsed.error().message().find("./libevil.so"), std::string::npos);
  }
}

TEST(SessionSetup, BeyondTheLimitsIsRefused) {
  const auto with = [](const char* key, const json& value) {
    json message = to_json(example_setup());
    message[key] = value;
    return parse_setup(message).ok();
  };
  EXPECT_FALSE(with("depth", kMaxDepth + 1));
  EXPECT_FALSE(with("connections", kMaxTestConnections + 1));
  EXPECT_FALSE(with("connections", 0));
  EXPECT_FALSE(with("sizes", json::array()));
  EXPECT_FALSE(with("sizes", json::array({kMaxMessageBytes + 1})));
  EXPECT_FALSE(with("sizes", std::vector<int>(65, 8)));
  EXPECT_FALSE(with("region", "00zz"));
}

TEST(RunRequest, SurvivesARoundTrip) {
  const RunRequest run{.number = 4,
                       .is_latency = true,
                       .message_bytes = 64,
                       .iterations = 5,
                       .warmup = 6,
                       .duration = std::chrono::seconds(7)};
  const Result<RunRequest> parsed = parse_run(to_json(run));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().number, 4u);
  EXPECT_TRUE(parsed.value().is_latency);
  EXPECT_EQ(parsed.value().message_bytes, 64u);
  EXPECT_EQ(parsed.value().iterations, 5u);
  EXPECT_EQ(parsed.value().warmup, 6u);
  EXPECT_EQ(parsed.value().duration, std::chrono::seconds(7));
}

TEST(RunRequest, WithoutASizeIsRefused) {
  EXPECT_FALSE(parse_run(json{{"type", "begin"}, {"number", 1u}}).ok());
}

TEST(Greeting, FitsPrivateDataAndSurvivesARoundTrip) {
  const std::vector<std::byte> bytes =
      encode_greeting({.is_control = false, .session = ~std::uint64_t{0}, .connection = 255});
  EXPECT_LE(bytes.size(), 192u);
  const Result<Greeting> greeting = decode_greeting(bytes);
  ASSERT_TRUE(greeting.ok());
  EXPECT_FALSE(greeting.value().is_control);
  EXPECT_EQ(greeting.value().session, ~std::uint64_t{0});
  EXPECT_EQ(greeting.value().connection, 255u);
}

TEST(Greeting, OfAStrangerIsRefusedWithASentence) {
  for (const std::string text : {"", "{", "[1]", "{\"perf\":2}", "\xff\xff"}) {
    const Result<Greeting> greeting = decode_greeting(std::as_bytes(std::span(text)));
    ASSERT_FALSE(greeting.ok()) << text;
    EXPECT_NE(greeting.error().message().find("spindrift perf"), std::string::npos);
  }
}

}  // namespace
}  // namespace spindrift::perf
