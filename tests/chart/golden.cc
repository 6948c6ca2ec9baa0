#include "tests/chart/golden.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace spindrift::chart {

std::string golden(const std::string& name, const std::string& made) {
  const std::string path = std::string(SPINDRIFT_GOLDEN) + "/" + name;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  if (std::getenv("SPINDRIFT_WRITE_GOLDEN") != nullptr) std::ofstream(path) << made;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace spindrift::chart
