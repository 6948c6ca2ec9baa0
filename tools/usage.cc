#include "tools/usage.h"

#include <string>

#include "spindrift/address.h"

#include "absl/strings/str_format.h"
#include "plugins/provider_modules.h"
#include "providers/libfabric/ofi_options.h"
#include "providers/wrap/fault_spec.h"

namespace spindrift::tools {
namespace {

Error usage(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

Status check_target(const NetAddress& address, std::string_view host) {
  if (address.port == 0) {
    return usage(
        absl::StrFormat("'%s' has port 0, where nobody can listen; name the port that "
                        "the server says",
                        host));
  }
  if (address.is_wildcard()) {
    return usage(
        absl::StrFormat("'%s' stands for every address of a host that listens; name one "
                        "address of the server",
                        host));
  }
  return ok_status();
}

// An address as it is written with this provider.
std::string example_of(std::string_view scheme, AddressUse use) {
  if (scheme == "shm") return "shm://name";
  if (scheme == "ofi") return "ofi://net@10.0.0.1:4793";
  if (use == AddressUse::kListen && scheme == "dpdk") return "dpdk://net_memif0?ip=10.0.0.1/24";
  if (use == AddressUse::kListen && scheme == "verbs") return "verbs://auto";
  return std::string(scheme) + "://10.0.0.1:4793";
}

Status check_ofi(const Url& url, AddressUse use) {
  const auto options = parse_ofi_options(url);
  if (!options.ok()) return options.error();
  if (use == AddressUse::kListen) return ok_status();
  for (const std::string& host : url.hosts) {
    const auto address = parse_ofi_address(host);
    if (!address.ok()) return address.error();
    if (!address.value().host) {
      return usage(absl::StrFormat("'ofi://%s' names no host to connect to; write it as in %s",
                                   host, example_of("ofi", use)));
    }
    Status status = check_target(*address.value().host, host);
    if (!status.ok()) return status;
  }
  return ok_status();
}

}  // namespace

Status check_url(std::string_view url, AddressUse use, const Registry& registry) {
  const Result<Url> parsed = parse_url(url);
  if (!parsed.ok()) return parsed.error();
  const auto provider = registry.find_provider(parsed.value().scheme);
  if (!provider.ok()) return provider.error();
  if (parsed.value().hosts.empty()) {
    return usage(absl::StrFormat("'%s' names no address; write it as in %s", url,
                                 example_of(parsed.value().scheme, use)));
  }
  if (parsed.value().scheme == "ofi") return check_ofi(parsed.value(), use);
  if (provider.value()->open_fabric != nullptr) return ok_status();  // names of its own
  if (names_devices(parsed.value().scheme) && use == AddressUse::kListen) return ok_status();
  for (const std::string& host : parsed.value().hosts) {
    const Result<NetAddress> address = parse_net_address(host, kDefaultPort);
    if (!address.ok()) return address.error();
    if (use == AddressUse::kListen) continue;
    Status status = check_target(address.value(), host);
    if (!status.ok()) return status;
  }
  return ok_status();
}

Result<FaultChoice> check_faults(std::string_view faults, CrcChoice asked) {
  const Result<FaultConfig> config = parse_fault_spec(faults);
  if (!config.ok()) return config.error();
  if (config.value().corrupt <= 0) return FaultChoice{.has_corruption = false, .crc = asked};
  if (asked == CrcChoice::kOff) {
    return usage("--crc off would deliver what --fault corrupt damages; leave one of them out");
  }
  return FaultChoice{.has_corruption = true, .crc = CrcChoice::kOn};
}

}  // namespace spindrift::tools
