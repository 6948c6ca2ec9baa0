// Tables of modules that must not be used are refused, with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/version.h"

#include "providers/module/export_call.h"
#include "providers/module/export_message_fabric.h"
#include "providers/module/export_packet_io.h"
#include "providers/module/foreign_module.h"

namespace spindrift {
namespace {

using ::testing::HasSubstr;

ProviderModule good() {
  ProviderModule module;
  module.library_version = kVersion.data();
  module.name = "foo";
  module.probe = [](const ModuleErrorSink* sink) {
    report(*sink, Error(ErrorCode::kUnavailable, "no foo is plugged in"));
    return false;
  };
  module.open = [](const char* url, std::size_t bytes, const ModuleErrorSink* sink) -> void* {
    report(*sink, Error(ErrorCode::kNotFound, "nothing at " + std::string(url, bytes)));
    return nullptr;
  };
  module.packet_io = packet_io_functions();
  return module;
}

std::string refusal(const ProviderModule& module) {
  const Status status = check_provider_module(&module, "foo");
  return status.ok() ? std::string() : status.error().message();
}

TEST(ProviderModule, OfThisBuildIsTaken) {
  EXPECT_EQ(refusal(good()), "");
}

TEST(ProviderModule, OfAnotherBuildIsRefused) {
  ProviderModule module = good();
  module.version = 99;
  EXPECT_THAT(refusal(module), HasSubstr("another version"));
  module = good();
  module.rx_packet_bytes += 8;
  EXPECT_THAT(refusal(module), HasSubstr("another version"));
  module = good();
  module.library_version = "9.9.9";
  EXPECT_THAT(refusal(module), HasSubstr("another version"));
  module = good();
  module.name = "bar";
  EXPECT_THAT(refusal(module), HasSubstr("not the provider foo"));
  module = good();
  module.packet_io.release = nullptr;
  EXPECT_THAT(refusal(module), HasSubstr("function is missing"));
  module = good();
  module.fabric_completion_bytes += 8;
  EXPECT_THAT(refusal(module), HasSubstr("another version"));
  EXPECT_FALSE(check_provider_module(nullptr, "foo").ok());
}

TEST(ProviderModule, MayDescribeItsDevices) {
  ProviderModule module = good();
  const auto silent = describe_devices_of(module, "foo://");
  ASSERT_TRUE(silent.ok());
  EXPECT_TRUE(silent.value().empty());
  module.describe = [](std::string_view url, const ModuleFactSink* facts,
                       const ModuleErrorSink* sink) {
    if (url != "foo://") {
      report(*sink, Error(ErrorCode::kNotFound, "nothing at " + std::string(url)));
      return false;
    }
    const ModuleFact fact{.device = "foo0", .name = "state", .value = "active"};
    facts->take(facts->to, &fact);
    return true;
  };
  const auto said = describe_devices_of(module, "foo://");
  ASSERT_TRUE(said.ok());
  ASSERT_EQ(said.value().size(), 1U);
  EXPECT_EQ(said.value()[0].device + said.value()[0].name + said.value()[0].value,
            "foo0stateactive");
  const auto failed = describe_devices_of(module, "foo://x");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message(), "nothing at foo://x");
}

TEST(ProviderModule, BringsPacketsOrAReliableMediumOrBoth) {
  ProviderModule module = good();
  const auto fabric = open_fabric_of(module, "foo://x");
  ASSERT_FALSE(fabric.ok());
  EXPECT_EQ(fabric.error().message(), "the module of foo brings no reliable medium");
  module.open_fabric = module.open;
  EXPECT_THAT(refusal(module), HasSubstr("function is missing"));
  module.fabric = message_fabric_functions();
  EXPECT_EQ(refusal(module), "");
  module.open = nullptr;
  module.packet_io = {};
  EXPECT_EQ(refusal(module), "");
  const auto packets = open_packets_of(module, "foo://x");
  ASSERT_FALSE(packets.ok());
  EXPECT_EQ(packets.error().message(), "the module of foo brings no provider of packets");
  module.open_fabric = nullptr;
  EXPECT_THAT(refusal(module), HasSubstr("function is missing"));
}

TEST(ProviderModule, GivesItsOwnErrors) {
  const ProviderModule module = good();
  const Status probed = probe_provider_module(module);
  ASSERT_FALSE(probed.ok());
  EXPECT_EQ(probed.error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(probed.error().message(), "no foo is plugged in");
  const auto opened = open_packets_of(module, "foo://x");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(opened.error().message(), "nothing at foo://x");
}

}  // namespace
}  // namespace spindrift
