#include "plugins/plugin_loader.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string plugin(const std::string& name) {
  return std::string(PLUGIN_DIR) + "/" + name + ".so";
}

Registry with_nscc() {
  Registry registry;
  registry.add(CcInfo{.name = "nscc", .summary = ""});
  return registry;
}

std::string refusal_of(const std::string& file) {
  PluginLoader loader;
  Registry registry = with_nscc();
  const Status status = loader.add_all(file, registry);
  EXPECT_EQ(registry.congestion_controls().size(), 1U) << "added in part";
  return status.ok() ? "accepted" : status.error().message();
}

TEST(PluginLoader, AddsAllThatAFileOffers) {
  PluginLoader loader;
  Registry registry;
  const Status status = loader.add_all(plugin("several"), registry);
  ASSERT_TRUE(status.ok()) << status.error().message();
  const auto steady = registry.find_congestion_control("steady:packets=3");
  ASSERT_TRUE(steady.ok()) << steady.error().message();
  EXPECT_THAT(steady.value().values, ElementsAre(3.0));
  const auto made = steady.value().info->create({.mtu_bytes = 1000}, steady.value().values);
  EXPECT_EQ(made->initial().window_bytes, 3000U);
  EXPECT_TRUE(registry.find_congestion_control("two").ok());
  EXPECT_TRUE(registry.find_path_selector("evens").ok());
  const auto reports = loader.reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].file, plugin("several"));
  EXPECT_THAT(reports[0].congestion_controls, ElementsAre("steady", "two"));
  EXPECT_THAT(reports[0].path_selectors, ElementsAre("evens"));
}

TEST(PluginLoader, FindsByFileAndName) {
  PluginLoader loader;
  Registry registry;
  registry.load_files_with(loader);
  const auto only = registry.find_congestion_control(CUSTOM_CC ":decrease=0.25");
  ASSERT_TRUE(only.ok()) << only.error().message();
  EXPECT_EQ(only.value().info->name, "aimd");
  EXPECT_THAT(only.value().values, ElementsAre(1.0, 0.25));
  EXPECT_TRUE(only.value().info->traits.needs_ecn);
  const auto named = registry.find_congestion_control(plugin("several") + ":steady:packets=5");
  ASSERT_TRUE(named.ok()) << named.error().message();
  EXPECT_THAT(named.value().values, ElementsAre(5.0));
  EXPECT_TRUE(registry.find_path_selector(plugin("several")).ok());
  EXPECT_EQ(registry.find_congestion_control(CUSTOM_CC).value().info, only.value().info)
      << "loaded twice";
}

TEST(PluginLoader, SaysWhatThereIsToChooseFrom) {
  PluginLoader loader;
  Registry registry;
  registry.load_files_with(loader);
  const auto unnamed = registry.find_congestion_control(plugin("several"));
  ASSERT_FALSE(unnamed.ok());
  EXPECT_THAT(unnamed.error().message(), HasSubstr("steady, two"));
  const auto wrong = registry.find_congestion_control(plugin("several") + ":three");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message(), AllOf(HasSubstr("'three'"), HasSubstr("steady, two")));
  const auto parameter = registry.find_congestion_control(CUSTOM_CC ":decrease=7");
  ASSERT_FALSE(parameter.ok());
  EXPECT_THAT(parameter.error().message(), HasSubstr("0.01..0.9"));
  const auto policy = registry.find_path_selector(CUSTOM_CC);
  ASSERT_FALSE(policy.ok());
  EXPECT_THAT(policy.error().message(), HasSubstr("offers no path selector"));
}

TEST(PluginLoader, RefusesWhatIsNoPlugin) {
  EXPECT_THAT(refusal_of("./nowhere.so"), AllOf(HasSubstr("./nowhere.so"), HasSubstr("no such")));
  const std::string text = ::testing::TempDir() + "/no_object.so";
  std::ofstream(text) << "not a shared object\n";
  EXPECT_THAT(refusal_of(text), AllOf(HasSubstr(text), HasSubstr("shared object")));
  EXPECT_THAT(refusal_of(plugin("broken_no_symbol")), HasSubstr("spindrift_plugin_v1"));
}

TEST(PluginLoader, RefusesBrokenTablesSayingHow) {
  const std::map<std::string, std::string> words = {
      {"no_table", "returned no table"},
      {"wrong_version", "version 2"},
      {"small_table", "struct_size of its plug-in table is 8"},
      {"huge_table", "struct_size of its plug-in table"},
      {"no_parts", "0 congestion controls and 0 path selectors"},
      {"no_list", "no list"},
      {"null_part", "is null"},
      {"small_cc", "struct_size of its congestion control is 16"},
      {"no_name", "is ''"},
      {"bad_name", "'Plain C'"},
      {"null_function", "on_ack of plain_c is null"},
      {"nan_parameter", "parameter packets of plain_c"},
      {"default_out_of_bounds", "1..64"},
      {"no_parameters", "counts 1 parameters"},
      {"clash", "nscc, which is there already"},
      {"twice", "plain_c twice"},
      {"small_path", "struct_size of its path selector is 1"},
      {"null_pick", "pick of last is null"},
  };
  for (const auto& [fault, word] : words) {
    SCOPED_TRACE(fault);
    EXPECT_THAT(refusal_of(plugin("broken_" + fault)), AllOf(HasSubstr(fault), HasSubstr(word)));
  }
  EXPECT_EQ(refusal_of("./nowhere.so").find("accepted"), std::string::npos);
}

TEST(PluginLoader, RefusesANameThatAnotherFileOffers) {
  PluginLoader loader;
  Registry registry;
  Registry other;
  ASSERT_TRUE(loader.add_all(plugin("broken_none"), registry).ok());
  // The same parts from another file.
  const std::string copy = ::testing::TempDir() + "/copy.so";
  std::ofstream(copy, std::ios::binary)
      << std::ifstream(plugin("broken_none"), std::ios::binary).rdbuf();
  const Status status = loader.add_all(copy, other);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), AllOf(HasSubstr("plain_c"), HasSubstr("broken_none")));
  EXPECT_TRUE(loader.add_all(plugin("broken_none"), registry).ok()) << "named twice is no harm";
  EXPECT_EQ(registry.congestion_controls().size(), 1U);
}

TEST(PluginLoader, AListGoesOnAfterAFailureAndReportsIt) {
  PluginLoader loader;
  Registry registry;
  loader.add_list(":./nowhere.so:" + plugin("several") + ":", registry);
  EXPECT_TRUE(registry.find_congestion_control("two").ok());
  const auto reports = loader.reports();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].error, "");
  EXPECT_EQ(reports[1].file, "./nowhere.so");
  EXPECT_THAT(reports[1].error, HasSubstr("no such"));
}

// What a plug-in leaves alone stays; C and C++ see the same events.
TEST(PluginLoader, APluginInCKeepsTheLimitsItDoesNotTouch) {
  PluginLoader loader;
  Registry registry;
  ASSERT_TRUE(loader.add_all(plugin("broken_none"), registry).ok());
  const auto choice = registry.find_congestion_control("plain_c:packets=6");
  ASSERT_TRUE(choice.ok());
  const auto made = choice.value().info->create({.mtu_bytes = 1000}, choice.value().values);
  const SendLimits limits = made->initial();
  EXPECT_EQ(limits, (SendLimits{.window_bytes = 6000}));
  EXPECT_EQ(made->on_ack({.acked_bytes = 10}), limits);
  EXPECT_EQ(made->on_loss({.lost_bytes = 10}), limits);
  EXPECT_EQ(made->on_signal(Time{}, TimerFired{}), limits);
}

}  // namespace
}  // namespace spindrift
