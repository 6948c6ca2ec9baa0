// The endpoint contract suite over two soft-RoCE devices, through the module as users load it: over
// reliable queue pairs, and over datagrams.
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
  explicit VerbsWorld(std::string options) : options_(std::move(options)) {}
  std::string name() const override { return "verbs"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    options.faults = config.faults;
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
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  std::string options_;
  unsigned endpoints_ = 0;
};

WorldFactory world(const char* name, const char* options) {
  return {name, [options] { return std::make_unique<VerbsWorld>(options); }};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Worlds, EndpointContract,
                         testing::Values(world("verbs_rc", "?lanes=4"),
                                         world("verbs_ud", "?transport=ud")),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });

}  // namespace spindrift
