#include "transport/base/host_identity.h"

#include <cstdlib>
#include <fstream>
#include <span>
#include <string>

#include "transport/base/siphash.h"

namespace spindrift {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::uint64_t host_identity(std::string_view forced) {
  std::string text(forced);
  // Read once while the endpoint is created; nobody changes the environment meanwhile.
  const char* told = std::getenv("SPINDRIFT_HOST_ID");  // NOLINT(concurrency-mt-unsafe)
  if (text.empty() && told != nullptr) text = told;
  if (text.empty())
    text = first_line("/proc/sys/kernel/random/boot_id") + first_line("/etc/machine-id");
  // A fixed key: this is a name, not a secret.
  return siphash24(std::as_bytes(std::span(text)), SipKey{.k0 = 0, .k1 = 0});
}

}  // namespace spindrift
