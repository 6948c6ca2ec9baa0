// The composition root: the tables of everything that ships, and endpoints by address.
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "spindrift/open.h"
#include "spindrift/tunables.h"

#include "cc/algorithms.h"
#include "plugins/plugin_loader.h"
#include "plugins/provider_modules.h"
#include "providers/shm/shm_fabric.h"
#include "providers/udp/udp_io.h"
#include "providers/wrap/fault_io.h"
#include "providers/wrap/fault_spec.h"
#include "providers/wrap/pcap_io.h"
#include "transport/base/url_options.h"
#include "transport/loss_rules.h"
#include "transport/paths/policies.h"

namespace spindrift {
namespace {

Registry make_registry() {
  Registry registry;
  for (const CcInfo* info : {&kNscc, &kNsccReceiverCredit, &kReceiverCredit, &kDcqcn, &kDctcp,
                             &kSwift, &kTimely, &kHpcc, &kFixedWindow})
    registry.add(*info);
  for (const PathSelectorInfo* info :
       {&kRepsPathPolicy, &kMixedPathPolicy, &kBitmapPathPolicy, &kLeastRttPathPolicy,
        &kRoundRobinPathPolicy, &kSinglePathPolicy}) {
    registry.add(*info);
  }
  for (const LossRuleInfo* info :
       {&kPerPathLossRule, &kRackLossRule, &kPacketThresholdLossRule, &kTimeoutLossRule}) {
    registry.add(*info);
  }
  registry.add(udp_provider());
  registry.add(shm_provider());
  for (const ProviderInfo& info : module_providers())
    registry.add(info);
  return registry;
}

PluginLoader& plugin_loader() {
  // Never destroyed, like the registry.
  static PluginLoader* const loader = new PluginLoader;
  return *loader;
}

// Faults lie outside the capture, so that the file shows what really left the host.
Result<std::unique_ptr<PacketIo>> wrap(std::unique_ptr<PacketIo> io, const OpenOptions& options) {
  if (!options.capture.empty()) {
    auto captured = wrap_with_capture(std::move(io), options.capture);
    if (!captured.ok()) return captured.error();
    io = std::move(captured.value());
  }
  if (!options.faults.empty()) {
    const Result<FaultConfig> faults = parse_fault_spec(options.faults);
    if (!faults.ok()) return faults.error();
    io = wrap_with_faults(std::move(io), faults.value());
  }
  return io;
}

// A wildcard is left to listen(), which knows whether it is wanted and expands it.
Status add_rails(PacketIo& io, const Url& url) {
  for (const std::string& host : url.hosts) {
    const Result<NetAddress> address = parse_net_address(host, 0);
    if (!address.ok()) return address.error();
    if (address.value().is_wildcard()) continue;
    const Result<std::uint16_t> rail = io.add_rail(address.value());
    if (!rail.ok()) return rail.error();
  }
  return ok_status();
}

// A reliable medium has no packets that could be lost or captured.
Result<std::unique_ptr<Endpoint>> open_over_fabric(const ProviderInfo& provider, const Url& url,
                                                   const OpenOptions& options) {
  if (!options.faults.empty() || !options.capture.empty())
    return Error(ErrorCode::kUnsupported,
                 url.scheme +
                     " is reliable by itself: there are no packets to capture or to apply faults "
                     "to; use udp");
  auto opened = provider.open_fabric(url);
  if (!opened.ok()) return opened.error();
  for (const std::string& address : url.hosts) {
    if (names_devices(url.scheme)) break;
    const auto added = opened.value()->add_address(address);
    if (!added.ok()) return added.error();
  }
  return Endpoint::create(std::move(opened.value()), options.endpoint, builtin_registry());
}

}  // namespace

const Registry& builtin_registry() {
  // Never destroyed: endpoints of other static objects may still use it at exit.
  static const Registry* const registry = [] {
    auto* made = new Registry(make_registry());
    made->load_files_with(plugin_loader());
    const char* files =
        std::getenv("SPINDRIFT_PLUGINS");  // NOLINT(concurrency-mt-unsafe): only read
    if (files != nullptr) plugin_loader().add_list(files, *made);
    return made;
  }();
  return *registry;
}

std::vector<PluginReport> plugins() {
  (void)builtin_registry();  // reads SPINDRIFT_PLUGINS
  return plugin_loader().reports();
}

Status load_plugin(std::string_view file, Registry& registry) {
  return plugin_loader().add_all(file, registry);
}

Result<std::unique_ptr<Endpoint>> open_endpoint(std::string_view address,
                                                const OpenOptions& options) {
  Result<Url> url = parse_url(address);
  if (!url.ok()) return url.error();
  for (const PluginReport& plugin : plugins())
    if (!plugin.error.empty())
      return Error(ErrorCode::kInvalidArgument, "SPINDRIFT_PLUGINS: " + plugin.error);
  const Settings settings{.udp = options.udp, .shm = options.shm};
  if (url.value().scheme == "udp") add_url_options(settings, TunableScope::kUdp, url.value());
  if (url.value().scheme == "shm") add_url_options(settings, TunableScope::kShm, url.value());
  const auto provider = builtin_registry().find_provider(url.value().scheme);
  if (!provider.ok()) return provider.error();
  if (provider.value()->open_fabric != nullptr &&
      (provider.value()->open == nullptr || !asks_for_packets(url.value())))
    return open_over_fabric(*provider.value(), url.value(), options);
  auto opened = provider.value()->open(url.value());
  if (!opened.ok()) return opened.error();
  auto wrapped = wrap(std::move(opened.value()), options);
  if (!wrapped.ok()) return wrapped.error();
  if (!names_devices(url.value().scheme)) {
    const Status rails = add_rails(*wrapped.value(), url.value());
    if (!rails.ok()) return rails.error();
  }
  return Endpoint::create(std::move(wrapped.value()), options.endpoint, builtin_registry());
}

}  // namespace spindrift
