// Addresses to rails: which local addresses listen, which one a connection leaves from.
#include <algorithm>
#include <mutex>
#include <utility>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"
#include "transport/base/url_options.h"
#include "transport/endpoint_impl.h"

namespace spindrift {
namespace {

void add_once(std::vector<std::uint16_t>& rails, std::uint16_t rail) {
  if (std::find(rails.begin(), rails.end(), rail) == rails.end()) rails.push_back(rail);
}

}  // namespace

Result<std::vector<NetAddress>> EndpointImpl::resolve(std::string_view address,
                                                      bool needs_host) const {
  auto url = parse_url(address);
  if (!url.ok()) return url.error();
  if (url.value().scheme != io_->caps().name)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(std::string(address), ": this endpoint speaks ", io_->caps().name,
                              "://, not ", url.value().scheme, "://"));
  if (const Status plain = refuse_url_options(url.value()); !plain.ok()) return plain.error();
  if (needs_host && url.value().hosts.empty())
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(std::string(address), " names no host to connect to; write ",
                              io_->caps().name, "://10.0.0.1:4793"));
  std::vector<NetAddress> out;
  for (const std::string& host : url.value().hosts) {
    auto parsed = parse_net_address(host, kDefaultPort);
    if (!parsed.ok()) return parsed.error();
    if (needs_host && (parsed.value().port == 0 || parsed.value().is_wildcard()))
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrCat(host, " is no address to connect to: it needs a host and a port"));
    out.push_back(parsed.value());
  }
  if (out.size() > wire::kMaxHelloRails)
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(out.size(), " rails in one address; at most ", wire::kMaxHelloRails));
  return out;
}

Result<std::uint16_t> EndpointImpl::find_or_add_rail(const NetAddress& local) {
  const auto rails = io_->rails();
  for (std::size_t i = 0; i < rails.size(); ++i)
    if (rails[i].is_same_host(local) && (local.port == 0 || rails[i].port == local.port))
      return static_cast<std::uint16_t>(i);
  auto rail = io_->add_rail(local);
  if (rail.ok()) watch_provider();
  return rail;
}

void EndpointImpl::watch_provider() {
  std::vector<int> fds;
  io_->append_wait_fds(fds);
  guardian_.watch(fds);
}

Result<std::vector<std::uint16_t>> EndpointImpl::named_rails(
    const std::vector<std::string>& addresses) {
  std::vector<std::uint16_t> out;
  for (const std::string& text : addresses) {
    std::string_view host = text;
    const std::string scheme = io_->caps().name + "://";
    if (host.starts_with(scheme)) host.remove_prefix(scheme.size());
    auto address = parse_net_address(host, 0);
    if (!address.ok()) return address.error();
    auto rail = find_or_add_rail(address.value());
    if (!rail.ok()) return rail.error();
    add_once(out, rail.value());
  }
  return out;
}

// Named ones; else the rail that has the address the host would send from; else every rail of the
// family (the endpoint was opened with an address of its own); else a new one.
Result<std::vector<std::uint16_t>> EndpointImpl::rails_for(const std::vector<NetAddress>& remotes,
                                                           const ConnectOptions& options) {
  if (!options.local_addresses.empty()) return named_rails(options.local_addresses);
  std::vector<std::uint16_t> out;
  for (const NetAddress& remote : remotes) {
    auto source = io_->source_for(remote);
    if (!source.ok()) return source.error();
    const auto rails = io_->rails();
    bool is_found = false;
    for (std::size_t i = 0; i < rails.size() && !is_found; ++i)
      if (rails[i].is_same_host(source.value())) {
        add_once(out, static_cast<std::uint16_t>(i));
        is_found = true;
      }
    if (is_found) continue;
    for (std::size_t i = 0; i < rails.size(); ++i)
      if (rails[i].family == remote.family && rails[i].is_loopback() == remote.is_loopback()) {
        add_once(out, static_cast<std::uint16_t>(i));
        is_found = true;
      }
    if (is_found) continue;
    auto rail = find_or_add_rail(source.value());
    if (!rail.ok()) return rail.error();
    add_once(out, rail.value());
  }
  return out;
}

Result<ListenerId> EndpointImpl::listen(std::string_view address, const ListenOptions& options) {
  const std::lock_guard guard(lock_);
  if (guardian_.is_in_child()) return remember(ConnId{}, used_in_child());
  const Status status = check_bounds(options);
  if (!status.ok()) return remember(ConnId{}, status.error());
  auto locals = resolve(address, false);
  if (!locals.ok()) return remember(ConnId{}, locals.error());
  Listener listener;
  listener.options = options;
  listener.is_open = true;
  if (locals.value().empty()) {
    for (std::size_t i = 0; i < io_->rails().size(); ++i)
      listener.rails.push_back(static_cast<std::uint16_t>(i));
    if (listener.rails.empty())
      locals.value().push_back(NetAddress{.port = kDefaultPort, .family = 4});
  }
  for (const NetAddress& local : locals.value()) {
    std::vector<NetAddress> concrete = {local};
    if (local.is_wildcard()) {
      listener.is_wildcard = true;
      concrete = io_->expand(local);
    }
    std::uint16_t port = local.port;
    for (NetAddress one : concrete) {
      one.port = port;
      auto rail = find_or_add_rail(one);
      if (!rail.ok()) return remember(ConnId{}, rail.error());
      add_once(listener.rails, rail.value());
      port = io_->rails()[rail.value()].port;  // all addresses of a wildcard share one port
    }
  }
  if (listener.rails.empty())
    return remember(ConnId{},
                    Error(ErrorCode::kUnavailable, absl::StrCat(std::string(address),
                                                                ": this host has no address "
                                                                "of that family")));
  for (const std::uint16_t rail : listener.rails) {
    const Status opened = io_->open_entropies(rail, 1);  // strangers are answered before any accept
    if (!opened.ok()) return remember(ConnId{}, opened.error());
  }
  listener.id = ListenerId{static_cast<std::uint32_t>(ctx_.listeners.size() + 1)};
  ctx_.listeners.push_back(listener);
  return listener.id;
}

}  // namespace spindrift
