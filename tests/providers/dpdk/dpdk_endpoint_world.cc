#include "tests/providers/dpdk/dpdk_endpoint_world.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "spindrift/open.h"

#include "absl/strings/str_cat.h"

namespace spindrift {
namespace {

class DpdkWorld final : public EndpointWorld {
 public:
  DpdkWorld() { keep_open(); }
  std::string name() const override { return "dpdk"; }
  std::unique_ptr<Endpoint> make(const WorldEndpointConfig& config) override {
    const unsigned host = endpoints_++ % 2;
    OpenOptions options;
    options.endpoint = config.endpoint;
    options.faults = config.faults;
    return open(host, config.rails, options);
  }
  std::string listen_address() override { return "dpdk://"; }
  std::string nobody_address() override { return "dpdk://10.77.0.2:9"; }
  void pass_time(Time /*deadline*/) override {}
  Time now() const override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  }

 private:
  static std::unique_ptr<Endpoint> open(unsigned host, unsigned rails, const OpenOptions& options) {
    std::string address = absl::StrCat("dpdk://net_memif", host, "?mtu=9000&mbufs=2048&ring=512",
                                       "&ip=10.77.0.", host + 1, "/24");
    if (rails == 2) absl::StrAppend(&address, ",10.77.1.", host + 1, "/24");
    absl::StrAppend(&address, "&args=role=", host == 0 ? "server" : "client",
                    ",socket-abstract=no,rsize=9,bsize=9216,socket=",
                    std::filesystem::temp_directory_path().string(), "/spindrift-endpoints-",
                    ::getpid());
    auto made = open_endpoint(address, options);
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.error().message().c_str());
      std::abort();
    }
    return std::move(made).value();
  }
  // The devices are opened once, with all their addresses, and the memory of their rings is used
  // once, so that tests see no growth.
  void keep_open() {
    static auto* const kept = new std::vector<std::unique_ptr<Endpoint>>;
    if (!kept->empty()) return;
    for (const unsigned host : {0U, 1U})
      kept->push_back(open(host, 2, {}));
    Pair pair(*this, {});
    if (!pair.open()) std::abort();
    Buffer from(*pair.a, kWarmBytes);
    Buffer to(*pair.b, kWarmBytes);
    const Sge there = from.all();
    const Sge back = to.all();
    static_cast<void>(
        pair.post_a({.kind = OpKind::kWrite, .local = {&there, 1}, .remote_key = to.key()}));
    static_cast<void>(
        pair.post_b({.kind = OpKind::kWrite, .local = {&back, 1}, .remote_key = from.key()}));
    if (!pair.wait_completions(*pair.a, 1) || !pair.wait_completions(*pair.b, 1)) std::abort();
    endpoints_ = 0;
  }
  static constexpr std::size_t kWarmBytes = 16U << 20U;
  unsigned endpoints_ = 0;
};

}  // namespace

WorldFactory dpdk_world() {
  return {"dpdk", [] { return std::make_unique<DpdkWorld>(); }};
}

}  // namespace spindrift
