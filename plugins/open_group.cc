// Which endpoints a communicator has: the one place that chooses between shared memory and the
// network. Which of them two ranks talk over is decided where they connect (collectives/links.h).
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "spindrift/open.h"

#include "plugins/provider_modules.h"

namespace spindrift {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kSameHost = "shm";

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

std::string scheme_of(std::string_view address) {
  return std::string(address.substr(0, address.find("://")));
}

std::string chosen(const GroupOptions& options) {
  if (!options.provider.empty()) return options.provider;
  // Read once, at set-up; nobody changes the environment meanwhile.
  const char* const told = std::getenv("SPINDRIFT_PROVIDER");  // NOLINT(concurrency-mt-unsafe)
  return std::string(told == nullptr || *told == '\0' ? kAuto : std::string_view(told));
}

// Empty: the choice makes sense with the address.
Status check(const std::string& choice, const std::string& address) {
  if (choice == kAuto || choice == kSameHost || choice == scheme_of(address)) return ok_status();
  const auto known = builtin_registry().find_provider(choice);
  if (!known.ok())
    return invalid("the provider of a group is auto, or a name: " + known.error().message());
  return invalid("provider " + choice + " does not go with the address " + address +
                 "; give an address of it, or leave the provider to auto");
}

}  // namespace

Result<OpenedGroup> open_group(Store& store, const GroupOptions& options) {
  const std::string choice = chosen(options);
  CommunicatorOptions group = options.communicator;
  if (Status status = check(choice, group.address); !status.ok()) return status.error();
  const bool is_one_host = choice == kSameHost || scheme_of(group.address) == kSameHost;
  if (is_one_host && scheme_of(group.address) != kSameHost) group.address = group.same_host_address;
  OpenedGroup opened;
  const ListenAddresses addresses = listen_addresses(group.address, 0);
  group.address = addresses.listen;
  auto network = open_endpoint(addresses.open, options.open);
  if (!network.ok()) return network.error();
  opened.network = std::move(network).value();
  const bool is_about_packets = !options.open.faults.empty() || !options.open.capture.empty();
  if (choice == kAuto && !is_one_host && !is_about_packets && group.ranks > 1) {
    auto near = open_endpoint(scheme_of(group.same_host_address) + "://", options.open);
    if (near.ok()) opened.same_host = std::move(near).value();
    if (!near.ok() && group.on_note)
      group.on_note("no shared memory between ranks of this host: " + near.error().message());
  }
  group.same_host = opened.same_host.get();
  if ((is_one_host || opened.same_host) && !is_about_packets && group.ranks > 1) {
    auto segments = open_host_segments();
    if (segments.ok()) opened.segments = std::move(segments).value();
    if (!segments.ok() && group.on_note) {
      group.on_note("small collectives go by messages, not through shared memory: " +
                    segments.error().message());
    }
  }
  group.segments = opened.segments.get();
  auto created = Communicator::create(*opened.network, store, group);
  if (!created.ok()) return created.error();
  opened.communicator = std::move(created).value();
  return opened;
}

}  // namespace spindrift
