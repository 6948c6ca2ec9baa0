// The C API: connections and their events.
#include "absl/strings/str_format.h"
#include "plugins/c_structs.h"

using namespace spindrift;
using namespace spindrift::c_api;

static_assert(SPINDRIFT_CRC_OFF == static_cast<int>(CrcChoice::kOff));
static_assert(SPINDRIFT_EVENT_FAILED == static_cast<int>(ConnEvent::Kind::kFailed));
static_assert(SPINDRIFT_STATE_FAILED == static_cast<int>(ConnState::kFailed));

namespace {

spindrift_event to_c(const ConnEvent& event) {
  return {.struct_size = 0,
          .kind = static_cast<std::uint32_t>(event.kind),
          .conn = event.conn.value,
          .listener = event.listener.value,
          .reserved = 0};
}

// Runs `call` for a connection that exists.
template <class Function>
int with_connection(spindrift_endpoint* handle, spindrift_conn conn, Function call) {
  return with_endpoint(handle, [&](Endpoint& e) -> int {
    const auto info = e.info(ConnId{conn});
    if (!info.ok()) return fail(info.error());
    call(e, ConnId{conn});
    return SPINDRIFT_OK;
  });
}

spindrift_listen_options c_options(const ListenOptions& options) {
  return {
      .struct_size = sizeof(spindrift_listen_options), .backlog = options.backlog, .reserved = 0};
}

int finish_connect(const Result<ConnId>& made, spindrift_conn* conn) {
  if (!made.ok()) return fail(made.error());
  *conn = made.value().value;
  return SPINDRIFT_OK;
}

}  // namespace

int spindrift_listen_options_init(spindrift_listen_options* options, size_t struct_size) {
  return init_from_settings(options, struct_size,
                            [](const Settings& settings) { return c_options(settings.listen); });
}

int spindrift_listen(spindrift_endpoint* endpoint, const char* address,
                     const spindrift_listen_options* options, spindrift_listener* listener) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (address == nullptr) return refuse_null("the address");
    const Result<Settings>& settings = process_settings();
    if (!settings.ok()) return fail(settings.error());
    spindrift_listen_options c = c_options(settings.value().listen);
    const int code = options == nullptr ? SPINDRIFT_OK : read_struct(options, c);
    if (code != SPINDRIFT_OK) return code;
    if (c.reserved != 0)
      return fail(SPINDRIFT_INVALID_ARGUMENT, "spindrift_listen_options.reserved must be 0");
    const auto made = e.listen(address, {.backlog = c.backlog});
    if (!made.ok()) return fail(made.error());
    if (listener != nullptr) *listener = made.value().value;
    return SPINDRIFT_OK;
  });
}

int spindrift_stop_listening(spindrift_endpoint* endpoint, spindrift_listener listener) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    e.stop_listening(ListenerId{listener});
    return SPINDRIFT_OK;
  });
}

ptrdiff_t spindrift_local_address(spindrift_endpoint* endpoint, size_t index, char* buffer,
                                  size_t capacity) {
  return with_endpoint<ptrdiff_t>(endpoint, [&](Endpoint& e) -> ptrdiff_t {
    const auto addresses = e.local_addresses();
    if (index >= addresses.size())
      return fail(SPINDRIFT_NOT_FOUND,
                  absl::StrFormat("local address %d of %d", index, addresses.size()));
    return static_cast<ptrdiff_t>(copy_text(addresses[index], buffer, capacity));
  });
}

int spindrift_connect(spindrift_endpoint* endpoint, const char* address,
                      const spindrift_connect_options* options, spindrift_conn* conn) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (address == nullptr) return refuse_null("the address");
    if (conn == nullptr) return refuse_null("the connection");
    ConnectOptions chosen;
    const int code = read_options(options, chosen);
    return code != SPINDRIFT_OK ? code : finish_connect(e.connect(address, chosen), conn);
  });
}

int spindrift_accept(spindrift_endpoint* endpoint, spindrift_conn conn,
                     const spindrift_connect_options* options) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    ConnectOptions chosen;
    const int code = read_options(options, chosen);
    return code != SPINDRIFT_OK ? code : code_of(e.accept(ConnId{conn}, chosen));
  });
}

int spindrift_reject(spindrift_endpoint* endpoint, spindrift_conn conn, const char* reason) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    return code_of(e.reject(ConnId{conn}, reason == nullptr ? "" : reason));
  });
}

int spindrift_close(spindrift_endpoint* endpoint, spindrift_conn conn) {
  return with_connection(endpoint, conn, [](Endpoint& e, ConnId id) { e.close(id); });
}

int spindrift_abort(spindrift_endpoint* endpoint, spindrift_conn conn) {
  return with_connection(endpoint, conn, [](Endpoint& e, ConnId id) { e.abort(id); });
}

int spindrift_release(spindrift_endpoint* endpoint, spindrift_conn conn) {
  return with_connection(endpoint, conn, [](Endpoint& e, ConnId id) { e.release(id); });
}

int spindrift_deny_path(spindrift_endpoint* endpoint, spindrift_conn conn, uint32_t path,
                        int is_denied) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (path >= kMaxPaths)
      return fail(SPINDRIFT_INVALID_ARGUMENT,
                  absl::StrFormat("path %d; there are at most %d", path, kMaxPaths));
    return code_of(
        e.deny_path(ConnId{conn}, PathId{static_cast<std::uint16_t>(path)}, is_denied != 0));
  });
}

ptrdiff_t spindrift_poll_events(spindrift_endpoint* endpoint, spindrift_event* events,
                                size_t capacity) {
  return with_endpoint<ptrdiff_t>(endpoint, [&](Endpoint& e) -> ptrdiff_t {
    if (capacity == 0) return 0;
    const int code = check_out(events);
    if (code != SPINDRIFT_OK) return code;
    const std::size_t room = events->struct_size;
    std::size_t count = 0;
    ConnEvent event;
    while (count < capacity && e.poll_events({&event, 1}) == 1)
      write_struct(to_c(event), room, element(events, count++));
    return static_cast<ptrdiff_t>(count);
  });
}

int spindrift_info(spindrift_endpoint* endpoint, spindrift_conn conn, spindrift_conn_info* info) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    const int code = check_out(info);
    if (code != SPINDRIFT_OK) return code;
    const auto found = e.info(ConnId{conn});
    if (!found.ok()) return fail(found.error());
    const ConnInfo& from = found.value();
    spindrift_conn_info out{};
    out.state = static_cast<std::uint32_t>(from.state);
    out.payload_mtu = from.payload_mtu;
    out.path_count = from.path_count;
    out.has_crc = from.has_crc;
    out.peer_progresses_alone = from.peer_progresses_alone;
    const std::size_t bytes = std::min(from.private_data.size(), sizeof(out.private_data));
    out.private_bytes = static_cast<std::uint32_t>(bytes);
    if (bytes != 0) std::memcpy(out.private_data, from.private_data.data(), bytes);
    copy_text(from.local_address, out.local_address);
    copy_text(from.remote_address, out.remote_address);
    copy_text(from.congestion_control, out.congestion_control);
    copy_text(from.path_selector, out.path_selector);
    copy_text(from.loss_rule, out.loss_rule);
    write_struct(out, info->struct_size, info);
    return SPINDRIFT_OK;
  });
}

ptrdiff_t spindrift_conn_error(spindrift_endpoint* endpoint, spindrift_conn conn, char* buffer,
                               size_t capacity) {
  return with_endpoint<ptrdiff_t>(endpoint, [&](Endpoint& e) -> ptrdiff_t {
    return static_cast<ptrdiff_t>(copy_text(e.last_error(ConnId{conn}), buffer, capacity));
  });
}

const char* spindrift_state_name(uint32_t state) {
  if (state > SPINDRIFT_STATE_FAILED) return "unknown";
  return to_string(static_cast<ConnState>(state)).data();
}

int spindrift_wait_event(spindrift_endpoint* endpoint, int64_t timeout_ns, spindrift_event* event) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    const int code = check_out(event);
    if (code != SPINDRIFT_OK) return code;
    const auto come = wait_event(e, timeout_of(timeout_ns));
    if (!come.ok()) return fail(come.error());
    write_struct(to_c(come.value()), event->struct_size, event);
    return SPINDRIFT_OK;
  });
}

int spindrift_connect_and_wait(spindrift_endpoint* endpoint, const char* address,
                               const spindrift_connect_options* options, spindrift_conn* conn) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (address == nullptr) return refuse_null("the address");
    if (conn == nullptr) return refuse_null("the connection");
    ConnectOptions chosen;
    const int code = read_options(options, chosen);
    return code != SPINDRIFT_OK ? code : finish_connect(connect_and_wait(e, address, chosen), conn);
  });
}

int spindrift_accept_one(spindrift_endpoint* endpoint, int64_t timeout_ns,
                         const spindrift_connect_options* options, spindrift_conn* conn) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (conn == nullptr) return refuse_null("the connection");
    ConnectOptions chosen;
    const int code = read_options(options, chosen);
    if (code != SPINDRIFT_OK) return code;
    return finish_connect(accept_one(e, timeout_of(timeout_ns), chosen), conn);
  });
}
