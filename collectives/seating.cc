#include "collectives/seating.h"

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

}  // namespace

Seating::~Seating() {
  for (const Listening& one : listening_)
    one.endpoint->stop_listening(one.listener);
}

Status Seating::sit(Endpoint& network, const CommunicatorOptions& options) {
  if (Status status = listen(network, options.address, seat_.address); !status.ok()) return status;
  seat_.host = host_identity(options.host_id);
  const Result<CostModel> costs = load_cost_model(cost_model_file());
  if (!costs.ok()) return costs.error();
  seat_.costs = to_text(costs.value());
  if (options.segments != nullptr) seat_.segments = options.segments->address();
  if (options.same_host == nullptr) return ok_status();
  const Status status =
      listen(*options.same_host, options.same_host_address, seat_.same_host_address);
  if (!status.ok() && options.on_note) {
    options.on_note(
        absl::StrFormat("rank %d does not listen at %s, so ranks of its host reach it "
                        "over the network: %s",
                        options.rank, options.same_host_address, status.error().message()));
  }
  return ok_status();
}

Status Seating::check(const Roster& roster) const {
  if (!is_of_one_host(seat_.address)) return ok_status();
  for (std::size_t rank = 0; rank < roster.seats.size(); ++rank) {
    const Seat& seat = roster.seats[rank];
    if (seat.host == seat_.host && is_of_one_host(seat.address)) continue;
    return invalid(absl::StrFormat(
        "this rank has shared memory only (%s), and rank %d %s; leave the provider to auto, or "
        "name one that reaches other hosts",
        seat_.address, rank,
        seat.host == seat_.host ? "of the same host does not" : "is on another host"));
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
