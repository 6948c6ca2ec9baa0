// The endpoint contract suite over two soft-RoCE devices, through the module as users load it: over
// reliable queue pairs, and over packets by unreliable ones and by datagrams.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "spindrift/open.h"

#include "absl/strings/str_cat.h"
#include "tests/contract/endpoint_contract.h"

namespace spindrift {
namespace {

class VerbsWorld final : public EndpointWorld {
 public:
  // `is_lossy`: packets, to which faults can be applied.
  VerbsWorld(std::string options, std::uint32_t paths, bool is_lossy)
      : options_(std::move(options)), paths_(paths), is_lossy_(is_lossy) {}
  std::string name() const override { return "verbs"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    if (is_lossy_) options.faults = config.faults;
    const std::string address = absl::StrCat("verbs://rxe", endpoints_++ % 2, options_);
    auto made = open_endpoint(address, options);
    if (!made.ok()) {
      std::fprintf(stderr, "%s: %s\n", address.c_str(), made.error().message().c_str());
      std::abort();
    }
    return std::move(made).value();
  }
  std::string listen_address() override { return "verbs://"; }
  std::string nobody_address() override { return "verbs://10.77.0.2:9"; }
  std::uint32_t paths(std::uint32_t wanted) const override { return std::min(wanted, paths_); }
  bool has_rails() const override { return false; }
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  std::string options_;
  std::uint32_t paths_;
  bool is_lossy_;
  unsigned endpoints_ = 0;
};

WorldFactory world(const char* name, const char* options, std::uint32_t paths, bool is_lossy) {
  return {name, [=] { return std::make_unique<VerbsWorld>(options, paths, is_lossy); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Worlds, EndpointContract,
                         testing::Values(world("verbs_rc", "?lanes=4&buffers=16", 4, false),
                                         world("verbs_uc", "?lanes=4&transport=uc", 4, true),
                                         world("verbs_ud", "?transport=ud", 1, true)),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });

}  // namespace spindrift
