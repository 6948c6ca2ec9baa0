#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "spindrift/tunables.h"

namespace spindrift {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A configuration file that is gone at the end.
class ConfigFile {
 public:
  explicit ConfigFile(std::string_view text, std::string_view name = "one") {
    path_ = (std::filesystem::path(::testing::TempDir()) /
             ("settings_test." + std::to_string(::getpid()) + "." + std::string(name)))
                .string();
    std::ofstream(path_) << text;
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Settings loaded(const SettingsSources& sources) {
  Result<Settings> settings = load_settings(sources);
  EXPECT_TRUE(settings.ok()) << settings.error().message();
  return settings.ok() ? std::move(settings).value() : Settings{};
}

std::string refusal(const SettingsSources& sources) {
  const Result<Settings> settings = load_settings(sources);
  EXPECT_FALSE(settings.ok());
  return settings.ok() ? "" : settings.error().message();
}

TEST(Settings, AreTheDefaultsWhenNobodySaysAnything) {
  const Settings settings = loaded({});
  EXPECT_EQ(settings.connect.path_count, ConnectOptions{}.path_count);
  EXPECT_EQ(origin_of(settings, "path_count"), "default");
  EXPECT_TRUE(settings.warnings.empty());
}

TEST(Settings, TakeAFileWithCommentsAndBlanks) {
  const ConfigFile file("# paths\n\n  path_count =  8  # as many as spines\ntrace=/tmp/t.jsonl\n");
  const Settings settings = loaded({.files = {file.path()}});
  EXPECT_EQ(settings.connect.path_count, 8U);
  EXPECT_EQ(settings.endpoint.trace, "/tmp/t.jsonl");
  EXPECT_EQ(origin_of(settings, "path_count"), file.path() + ":3");
}

TEST(Settings, LaterFilesOverrideEarlierOnesAndTheEnvironmentBoth) {
  const ConfigFile first("path_count = 8\nrto_min = 1ms\nbacklog = 7\n", "first");
  const ConfigFile second("path_count = 4\nrto_min = 2ms\n", "second");
  const Settings settings = loaded({.files = {first.path(), second.path()},
                                    .environment = {"SPINDRIFT_PATH_COUNT=2", "HOME=/"}});
  EXPECT_EQ(settings.connect.path_count, 2U);
  EXPECT_EQ(settings.connect.rto_min, std::chrono::milliseconds(2));
  EXPECT_EQ(settings.listen.backlog, 7U);
  EXPECT_EQ(origin_of(settings, "path_count"), "environment");
  EXPECT_EQ(origin_of(settings, "rto_min"), second.path() + ":2");
}

TEST(Settings, RefuseABadValueWithItsNamePlaceAndBounds) {
  const ConfigFile file("\npath_count = 257\n");
  EXPECT_EQ(refusal({.files = {file.path()}}),
            file.path() + ":2: path_count is '257'; it must be 1..256");
  EXPECT_EQ(refusal({.environment = {"SPINDRIFT_CRC=maybe"}}),
            "environment: SPINDRIFT_CRC is 'maybe'; it must be auto, on or off");
}

TEST(Settings, RefuseALineThatSetsNothing) {
  const ConfigFile file("path_count 8\n");
  EXPECT_THAT(refusal({.files = {file.path()}}),
              HasSubstr(file.path() + ":1: 'path_count 8' is no setting; write 'name = value'"));
}

TEST(Settings, RefuseFieldsThatContradictEachOther) {
  EXPECT_THAT(refusal({.environment = {"SPINDRIFT_RTO_MIN=9s"}}), HasSubstr("rto_max is 500ms"));
}

TEST(Settings, MissingFilesMatterOnlyWhenTheyWereNamed) {
  const std::vector<std::string> files = {"/nowhere/spindrift.conf"};
  EXPECT_TRUE(load_settings({.files = files}).ok());
  EXPECT_THAT(refusal({.files = files, .needs_files = true}),
              HasSubstr("cannot read /nowhere/spindrift.conf, which SPINDRIFT_CONFIG names"));
  EXPECT_THAT(refusal({.files = {"/"}, .needs_files = true}), HasSubstr("Is a directory"));
}

TEST(Settings, WarnAboutNamesNobodyKnowsAndNameTheNearest) {
  const ConfigFile file("path_cuont = 8\nplugins = x.so\n");
  const Settings settings = loaded(
      {.files = {file.path()}, .environment = {"SPINDRIFT_RTO_MIM=1ms", "SPINDRIFT_JOBS=2"}});
  EXPECT_THAT(
      settings.warnings,
      ElementsAre(
          file.path() + ":1: nobody knows 'path_cuont'; the nearest name is path_count",
          file.path() + ":2: 'plugins' can only be set in the environment, SPINDRIFT_PLUGINS",
          "environment: nobody knows 'SPINDRIFT_RTO_MIM'; the nearest name is SPINDRIFT_RTO_MIN"));
}

TEST(Settings, OfTheProcessComeFromTheFileThatTheEnvironmentNames) {
  const ConfigFile file("path_count = 5\n");
  ::setenv("SPINDRIFT_CONFIG", file.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const Result<Settings> settings = load_settings();
  ::unsetenv("SPINDRIFT_CONFIG");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings.value().connect.path_count, 5U);
  EXPECT_EQ(origin_of(settings.value(), "config"), "environment");
}

}  // namespace
}  // namespace spindrift
