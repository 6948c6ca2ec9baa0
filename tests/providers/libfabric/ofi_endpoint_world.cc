#include "tests/providers/libfabric/ofi_endpoint_world.h"

#include <cstdio>
#include <cstdlib>

#include "spindrift/open.h"

namespace spindrift {
namespace {

// Two endpoints of one process; tests of several processes are in processes_test.cc.
class OfiWorld final : public EndpointWorld {
 public:
  explicit OfiWorld(const char* provider) : provider_(provider) {}
  std::string name() const override { return "ofi"; }
  std::uint32_t paths(std::uint32_t /*wanted*/) const override { return 1; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    OpenOptions options;
    options.endpoint = config.endpoint;
    std::string address = "ofi://" + provider_ + "@127.0.0.1:0";
    if (config.rails == 2) address += "," + provider_ + "@127.0.0.2:0";
    auto made = open_endpoint(address, options);
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.error().message().c_str());
      std::abort();
    }
    return std::move(made).value();
  }
  std::string listen_address() override { return "ofi://"; }
  std::string nobody_address() override { return "ofi://" + provider_ + "@127.0.0.1:9"; }
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  std::string provider_;
};

}  // namespace

WorldFactory ofi_world(const char* provider) {
  return {"ofi", [provider] { return std::make_unique<OfiWorld>(provider); }};
}

}  // namespace spindrift
