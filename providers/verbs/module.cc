// What libspindrift-verbs.so exports.
#include <cstdlib>
#include <memory>

#include "providers/module/export_module.h"
#include "providers/verbs/verbs_datagrams.h"
#include "providers/verbs/verbs_describe.h"
#include "providers/verbs/verbs_fabric.h"
#include "providers/verbs/verbs_options.h"
#include "providers/verbs/verbs_port.h"

namespace spindrift {
namespace {

const char* environment(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
}

// One rail, at the address of the port's GID.
Result<std::unique_ptr<PacketIo>> open(const Url& url) {
  const auto options = parse_verbs_options(url, environment);
  if (!options.ok()) return options.error();
  auto io = open_verbs_datagrams(options.value());
  if (!io.ok()) return io.error();
  const auto port = VerbsPort::open(options.value(), options.value().devices.empty()
                                                         ? DevicePort{}
                                                         : options.value().devices.front());
  if (!port.ok()) return port.error();
  auto address = port.value()->address();
  if (!address.ok()) return address.error();
  address.value().port = static_cast<std::uint16_t>(options.value().port);
  const auto rail = io.value()->add_rail(address.value());
  if (!rail.ok()) return rail.error();
  return io;
}

Result<std::unique_ptr<MessageFabric>> open_fabric(const Url& url) {
  const auto options = parse_verbs_options(url, environment);
  if (!options.ok()) return options.error();
  return open_verbs_fabric(options.value());
}

bool describe(std::string_view text, const ModuleFactSink* facts, const ModuleErrorSink* sink) {
  return guarded(*sink, [&]() -> Status {
    const auto url = parse_url(text);
    if (!url.ok()) return url.error();
    const auto options = parse_verbs_options(url.value(), environment);
    if (!options.ok()) return options.error();
    const auto found = describe_verbs(options.value());
    if (!found.ok()) return found.error();
    for (const VerbsFact& one : found.value()) {
      const ModuleFact fact{.device = one.device, .name = one.name, .value = one.value};
      facts->take(facts->to, &fact);
    }
    return ok_status();
  });
}

constexpr ProviderInfo kVerbs{
    .name = "verbs", .summary = {}, .open = open, .probe = probe_verbs, .open_fabric = open_fabric};

}  // namespace
}  // namespace spindrift

extern "C" __attribute__((visibility("default"))) const spindrift::ProviderModule*
spindrift_provider_module() {
  static const spindrift::ProviderModule module = [] {
    spindrift::ProviderModule out = *spindrift::exported_module<spindrift::kVerbs>();
    out.describe = spindrift::describe;
    return out;
  }();
  return &module;
}
