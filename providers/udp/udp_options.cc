#include "providers/udp/udp_options.h"

#include <algorithm>
#include <string>

#include "spindrift/tunables.h"

namespace spindrift {

Result<UdpOptions> parse_udp_options(const Url& url) {
  Settings settings;
  for (const auto& [key, text] : url.options) {
    const Tunable* tunable = find_tunable("udp_" + key);
    if (tunable == nullptr) {
      return Error(ErrorCode::kInvalidArgument,
                   "udp has no option '" + key + "'; it knows gso, gro, rcvbuf and sndbuf");
    }
    const auto value = parse_value(*tunable, text);
    if (!value.ok()) {
      return Error(ErrorCode::kInvalidArgument,
                   "udp option " + key + "=" + text + ": " + value.error().message());
    }
    tunable->set(settings, value.value());
  }
  return settings.udp;
}

void add_udp_options(const UdpOptions& options, Url& url) {
  const Settings settings{.udp = options};
  constexpr std::string_view kPrefix = "udp_";
  for (const Tunable& tunable : tunables()) {
    if (tunable.scope != TunableScope::kUdp) continue;
    const std::string key(tunable.name.substr(kPrefix.size()));
    const bool is_said = std::any_of(url.options.begin(), url.options.end(),
                                     [&key](const auto& option) { return option.first == key; });
    if (!is_said) url.options.emplace_back(key, format_value(tunable, tunable.get(settings)));
  }
}

}  // namespace spindrift
