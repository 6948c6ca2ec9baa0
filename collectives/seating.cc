#include "collectives/seating.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <absl/strings/str_format.h>

#include "collectives/cost_model.h"
#include "transport/base/host_identity.h"

namespace spindrift::collectives {
namespace {

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

// One text for all rails: "udp://10.0.0.1:4000,10.1.0.1:4000".
Result<std::string> own_address(const Endpoint& endpoint) {
  std::string joined;
  for (const std::string& address : endpoint.local_addresses()) {
    const Result<Url> url = parse_url(address);
    if (!url.ok()) return url.error();
    for (const std::string& host : url.value().hosts) {
      const Result<NetAddress> parsed = parse_net_address(host, 0);
      if (parsed.ok() && parsed.value().is_wildcard()) {
        return invalid(absl::StrFormat(
            "others cannot dial the wildcard address %s; give the address they reach this rank by",
            address));
      }
      joined += joined.empty() ? url.value().scheme + "://" + host : "," + host;
    }
  }
  return joined;
}

std::string_view scheme_of(std::string_view address) {
  return address.substr(0, address.find(':'));
}

enum class ProviderChoice : std::uint8_t { kBoth, kNetworkOnly, kSameHostOnly };

Result<ProviderChoice> provider_choice(const CommunicatorOptions& options) {
  // Read once, at set-up; nobody changes the environment meanwhile.
  const char* const told = std::getenv("SPINDRIFT_PROVIDER");  // NOLINT(concurrency-mt-unsafe)
  const std::string name = told == nullptr ? "" : told;
  if (name.empty()) return ProviderChoice::kBoth;
  if (name == scheme_of(options.address)) return ProviderChoice::kNetworkOnly;
  if (name != scheme_of(options.same_host_address)) {
    return invalid(absl::StrFormat("SPINDRIFT_PROVIDER=%s is the provider of neither %s nor %s",
                                   name, options.address, options.same_host_address));
  }
  if (options.same_host == nullptr) {
    return invalid(
        absl::StrFormat("SPINDRIFT_PROVIDER=%s, but there is no endpoint of it here "
                        "(CommunicatorOptions::same_host)",
                        name));
  }
  return ProviderChoice::kSameHostOnly;
}

}  // namespace

Seating::~Seating() {
  for (const Listening& one : listening_)
    one.endpoint->stop_listening(one.listener);
}

Status Seating::sit(Endpoint& network, const CommunicatorOptions& options) {
  const Result<ProviderChoice> choice = provider_choice(options);
  if (!choice.ok()) return choice.error();
  if (Status status = listen(network, options.address, seat_.address); !status.ok()) return status;
  seat_.host = host_identity(options.host_id);
  const Result<CostModel> costs = load_cost_model(cost_model_file());
  if (!costs.ok()) return costs.error();
  seat_.costs = to_text(costs.value());
  if (options.same_host == nullptr || choice.value() == ProviderChoice::kNetworkOnly) {
    return ok_status();
  }
  is_forced_ = choice.value() == ProviderChoice::kSameHostOnly;
  return listen(*options.same_host, options.same_host_address, seat_.same_host_address);
}

Status Seating::check(const Roster& roster) const {
  for (std::size_t rank = 0; is_forced_ && rank < roster.seats.size(); ++rank) {
    const Seat& seat = roster.seats[rank];
    if (seat.host == seat_.host && !seat.same_host_address.empty()) continue;
    return invalid(absl::StrFormat(
        "SPINDRIFT_PROVIDER allows %s only, but rank %d is on another host or has not opened it",
        std::string(scheme_of(seat_.same_host_address)), rank));
  }
  return ok_status();
}

Status Seating::listen(Endpoint& endpoint, const std::string& address, std::string& own) {
  const Result<ListenerId> listener = endpoint.listen(address);
  if (!listener.ok()) return listener.error();
  listening_.push_back({.endpoint = &endpoint, .listener = listener.value()});
  const Result<std::string> dialled = own_address(endpoint);
  if (!dialled.ok()) return dialled.error();
  own = dialled.value();
  return ok_status();
}

}  // namespace spindrift::collectives
