#include "collectives/bootstrap/served_meeting.h"

#include <algorithm>

#include <absl/strings/str_format.h>

#include "collectives/bootstrap/interfaces.h"
#include "collectives/bootstrap/socket.h"
#include "transport/base/random.h"

namespace spindrift::collectives {
namespace {

// A store that belongs to this meeting holds its token here.
constexpr std::string_view kTokenKey = "meeting";
// For one address of several.
constexpr Duration kOneTry = std::chrono::seconds(1);

std::string fresh_token() {
  return absl::StrFormat("%016x", random_u64());
}

// Where MASTER_ADDR is the name of a service, or an address that is translated on the way, this
// host does not own it and serves at all it has.
NetAddress to_bind(const NetAddress& address) {
  const std::vector<NetAddress> own = own_addresses(true);
  if (std::any_of(own.begin(), own.end(),
                  [&](const NetAddress& one) { return one.is_same_host(address); }) ||
      address.is_loopback()) {
    return address;
  }
  return NetAddress{.port = address.port, .family = address.family};
}

}  // namespace

Result<std::unique_ptr<ServedMeeting>> ServedMeeting::open(std::unique_ptr<TcpStoreServer> server,
                                                           Meeting meeting) {
  if (!meeting.token.empty()) {
    Result<std::unique_ptr<TcpStore>> store =
        TcpStore::try_connect(server->address(), monotonic_now() + kOneTry);
    if (!store.ok()) return store.error();
    if (Status status = store.value()->set(kTokenKey, meeting.token); !status.ok()) {
      return status.error();
    }
  }
  return std::unique_ptr<ServedMeeting>(new ServedMeeting(std::move(server), std::move(meeting)));
}

Result<std::unique_ptr<ServedMeeting>> ServedMeeting::serve_at(const Meeting& meeting) {
  std::string refusals;
  for (const std::string& text : meeting.addresses) {
    const Result<NetAddress> address = parse_net_address(text, 0);
    if (!address.ok()) return address.error();
    auto server = TcpStoreServer::start(to_bind(address.value()).to_string());
    if (server.ok()) {
      Meeting served = meeting;
      // Port 0 was any.
      if (address.value().port == 0) {
        NetAddress bound = address.value();
        bound.port = parse_net_address(server.value()->address(), 0).value().port;
        served.addresses = {bound.to_string()};
      }
      return open(std::move(server).value(), std::move(served));
    }
    refusals += (refusals.empty() ? "" : "; ") + server.error().message();
  }
  return Error(ErrorCode::kIo, "rank 0 cannot serve the rendezvous: " + refusals);
}

Result<std::unique_ptr<ServedMeeting>> ServedMeeting::serve(std::string_view host) {
  Meeting meeting{.token = fresh_token(), .addresses = {}};
  if (!host.empty()) {
    meeting.addresses = {std::string(host)};
    return serve_at(meeting);
  }
  auto server = TcpStoreServer::start("[::]:0");
  if (!server.ok()) server = TcpStoreServer::start("0.0.0.0:0");
  if (!server.ok()) return server.error();
  const std::uint16_t port = parse_net_address(server.value()->address(), 0).value().port;
  for (NetAddress address : own_addresses(false)) {
    address.port = port;
    meeting.addresses.push_back(address.to_string());
  }
  // Processes of one host need no network.
  meeting.addresses.push_back(absl::StrFormat("127.0.0.1:%d", port));
  return open(std::move(server).value(), std::move(meeting));
}

Result<std::unique_ptr<TcpStore>> go_to(const Meeting& meeting, Time deadline) {
  Error refusal(ErrorCode::kInvalidArgument, "the meeting has no address");
  for (const std::string& address : meeting.addresses) {
    const Time limit =
        meeting.addresses.size() == 1 ? deadline : std::min(deadline, monotonic_now() + kOneTry);
    Result<std::unique_ptr<TcpStore>> store = TcpStore::try_connect(address, limit);
    if (!store.ok()) {
      refusal = store.error();
      continue;
    }
    if (meeting.token.empty()) return store;
    const Result<std::string> token = store.value()->get(kTokenKey, kOneTry);
    if (token.ok() && token.value() == meeting.token) return store;
    refusal = Error(ErrorCode::kUnavailable,
                    absl::StrFormat("what answers at %s belongs to another job", address));
  }
  return refusal;
}

}  // namespace spindrift::collectives

namespace spindrift {

Result<std::unique_ptr<Rendezvous>> Rendezvous::serve(std::string_view address) {
  Result<std::unique_ptr<collectives::ServedMeeting>> served =
      collectives::ServedMeeting::serve(address);
  if (!served.ok()) return served.error();
  return std::unique_ptr<Rendezvous>(std::move(served).value());
}

}  // namespace spindrift
