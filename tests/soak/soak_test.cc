// The soak finds defects that are put in on purpose, and the command it prints repeats the failure.
#include <array>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace {

using testing::HasSubstr;

struct Ended {
  int code = -1;
  std::string output;
};

Ended run(const std::string& command) {
  Ended out;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    out.output.append(buffer.data(), count);
  const int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

std::string line_with(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

class Planted : public testing::TestWithParam<const char*> {};

TEST_P(Planted, IsFoundAndItsCommandRepeatsIt) {
  const Ended found =
      run(std::string(SPINDRIFT_SOAK) + " --first 1 --seeds 200 --plant " + GetParam());
  ASSERT_EQ(found.code, 1) << found.output;
  const std::string failure = line_with(found.output, "FAILED");
  ASSERT_NE(failure, "");
  const std::string command = line_with(found.output, "repeat: ").substr(8);
  ASSERT_THAT(command, HasSubstr("--seed "));
  const Ended again = run(command);
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(line_with(again.output, "FAILED"), failure);
}

INSTANTIATE_TEST_SUITE_P(Soak, Planted,
                         testing::Values("corrupt-one-byte", "lose-completion",
                                         "repeat-completion"),
                         [](const auto& planted) {
                           std::string name = planted.param;
                           for (char& one : name)
                             if (one == '-') one = '_';
                           return name;
                         });

TEST(Soak, RefusesWrongArguments) {
  for (const char* words :
       {"--seconds 0", "--jobs 257", "--seed x", "--what 1", "--seeds", "--plant weeds"}) {
    const Ended ended = run(std::string(SPINDRIFT_SOAK) + " " + words);
    EXPECT_EQ(ended.code, 2) << words;
    EXPECT_THAT(ended.output, HasSubstr("Usage")) << words;
  }
}

TEST(Soak, TakesItsTimeFromTheEnvironment) {
  const Ended wrong = run("SPINDRIFT_SOAK_SECONDS=never " + std::string(SPINDRIFT_SOAK));
  EXPECT_EQ(wrong.code, 2);
  const Ended ended = run("SPINDRIFT_SOAK_SECONDS=1 " + std::string(SPINDRIFT_SOAK));
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("seeds"));
}

}  // namespace
