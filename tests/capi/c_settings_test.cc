// The C API with settings from a file and the environment. They are read once in a process, so this
// program has one set of them, put there before the first call.
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/c_api.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CSettings : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string file = ::testing::TempDir() + "c_settings_test.conf";
    std::ofstream(file) << "path_count = 3\nmax_regions = 5\nbacklog = 7\n"
                        << "path_selector = single\nudp_gro = off\n";
    // NOLINTBEGIN(concurrency-mt-unsafe): before the first thread
    setenv("SPINDRIFT_CONFIG", file.c_str(), 1);
    setenv("SPINDRIFT_CONGESTION_CONTROL", "dcqcn", 1);
    setenv("SPINDRIFT_PATH_COUNT", "4", 1);
    setenv("SPINDRIFT_PATH_COUNTS", "4", 1);
    // NOLINTEND(concurrency-mt-unsafe)
  }
};

TEST_F(CSettings, AreInOptionsThatWereInitialised) {
  spindrift_open_options open{};
  ASSERT_EQ(spindrift_open_options_init(&open, sizeof open), SPINDRIFT_OK);
  EXPECT_EQ(open.max_regions, 5U);
  spindrift_connect_options connect{};
  ASSERT_EQ(spindrift_connect_options_init(&connect, sizeof connect), SPINDRIFT_OK);
  EXPECT_EQ(connect.path_count, 4U);  // the environment over the file
  spindrift_listen_options listen{};
  ASSERT_EQ(spindrift_listen_options_init(&listen, sizeof listen), SPINDRIFT_OK);
  EXPECT_EQ(listen.backlog, 7U);
}

TEST_F(CSettings, HoldForWhatTheCallerDoesNotSay) {
  spindrift_endpoint* endpoint = nullptr;
  ASSERT_EQ(spindrift_open("udp://", nullptr, &endpoint), SPINDRIFT_OK);
  std::array<char, 8> memory{};
  spindrift_region region{};
  region.struct_size = sizeof region;
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(spindrift_register(endpoint, memory.data(), memory.size(), 0, nullptr, &region),
              SPINDRIFT_OK);
  EXPECT_EQ(spindrift_register(endpoint, memory.data(), memory.size(), 0, nullptr, &region),
            SPINDRIFT_NO_MEMORY);

  spindrift_conn_info info{};
  info.struct_size = sizeof info;
  spindrift_conn conn = 0;
  ASSERT_EQ(spindrift_connect(endpoint, "udp://127.0.0.1:9", nullptr, &conn), SPINDRIFT_OK);
  ASSERT_EQ(spindrift_info(endpoint, conn, &info), SPINDRIFT_OK);
  EXPECT_EQ(info.path_count, 4U);
  EXPECT_STREQ(info.congestion_control, "dcqcn");
  EXPECT_STREQ(info.path_selector, "single");

  spindrift_connect_options options{};
  ASSERT_EQ(spindrift_connect_options_init(&options, sizeof options), SPINDRIFT_OK);
  options.path_count = 2;
  options.congestion_control = "nscc";
  ASSERT_EQ(spindrift_connect(endpoint, "udp://127.0.0.1:9", &options, &conn), SPINDRIFT_OK);
  ASSERT_EQ(spindrift_info(endpoint, conn, &info), SPINDRIFT_OK);
  EXPECT_EQ(info.path_count, 2U);
  EXPECT_STREQ(info.congestion_control, "nscc");
  EXPECT_STREQ(info.path_selector, "single");
  spindrift_destroy(endpoint);
}

TEST_F(CSettings, ThatNobodyKnowsAreToldOf) {
  std::array<char, 256> text{};
  ASSERT_GT(spindrift_setting_warning(0, text.data(), text.size()), 0);
  EXPECT_THAT(text.data(), AllOf(HasSubstr("SPINDRIFT_PATH_COUNTS"),
                                 HasSubstr("nearest name is SPINDRIFT_PATH_COUNT")));
  EXPECT_EQ(spindrift_setting_warning(1, text.data(), text.size()), SPINDRIFT_NOT_FOUND);
}

}  // namespace
