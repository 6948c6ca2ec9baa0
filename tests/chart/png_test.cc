#include "tools/sim/plots/png.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/chart/line_chart.h"

namespace spindrift::simtool {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Png : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/a.svg") << to_svg(chart::LineChart{.title = "Rates"});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = testing::TempDir() + "spindrift_png_test";
};

TEST_F(Png, IsMadeOfAFigure) {
  const Status status = convert_to_png(folder_ + "/a.svg", folder_ + "/a.png");
  ASSERT_TRUE(status.ok()) << status.error().message();
  std::ifstream file(folder_ + "/a.png", std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  EXPECT_THAT(content.str(), StartsWith("\x89PNG\r\n\x1a\n"));
}

TEST_F(Png, NeedsAConverterAndSaysWhich) {
  const std::string path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  setenv("PATH", folder_.c_str(), 1);            // NOLINT(concurrency-mt-unsafe)
  const Status status = convert_to_png(folder_ + "/a.svg", folder_ + "/a.png");
  setenv("PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().message(), HasSubstr("librsvg2-bin"));
}

TEST_F(Png, NamesTheFileThatCannotBeMade) {
  const Status status = convert_to_png(folder_ + "/a.svg", folder_ + "/no/a.png");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
  EXPECT_THAT(status.error().message(), HasSubstr("/no/a.png"));
}

}  // namespace
}  // namespace spindrift::simtool
