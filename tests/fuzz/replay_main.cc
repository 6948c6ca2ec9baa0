// Runs a fuzz target over files and folders of inputs without libFuzzer, so that every corpus is an
// ordinary test. Also feeds it nothing, and every single byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace {

namespace fs = std::filesystem;

void run_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::uint8_t> input(text.begin(), text.end());
  std::printf("%s, %zu bytes\n", path.c_str(), input.size());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

std::vector<fs::path> files_below(const fs::path& path) {
  std::vector<fs::path> files;
  if (fs::is_regular_file(path)) files.push_back(path);
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int count, char** arguments) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    LLVMFuzzerTestOneInput(&byte, 1);
  }
  for (int i = 1; i < count; ++i) {
    for (const fs::path& path : files_below(arguments[i]))
      run_file(path);
  }
  return 0;
}
