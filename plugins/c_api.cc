// The C API: endpoints, memory, reports.
#include "spindrift/c_api.h"

#include <array>

#include "spindrift/open.h"
#include "spindrift/version.h"

#include "plugins/c_structs.h"

using namespace spindrift;
using namespace spindrift::c_api;

static_assert(SPINDRIFT_LOCAL_WRITE == static_cast<int>(Access::kLocalWrite));
static_assert(SPINDRIFT_REMOTE_READ == static_cast<int>(Access::kRemoteRead));
static_assert(SPINDRIFT_REMOTE_WRITE == static_cast<int>(Access::kRemoteWrite));
static_assert(SPINDRIFT_REMOTE_ATOMIC == static_cast<int>(Access::kRemoteAtomic));
static_assert(SPINDRIFT_MEMORY_DMABUF == static_cast<int>(MemoryType::kDmaBuf));
static_assert(SPINDRIFT_REGION_WIRE_BYTES == RemoteRegion::kWireBytes);

namespace {

constexpr std::uint32_t kAllRights = static_cast<std::uint32_t>(kAllAccess);

spindrift_open_options c_options(const EndpointConfig& c) {
  return {.struct_size = sizeof(spindrift_open_options),
          .faults = nullptr,
          .capture = nullptr,
          .max_connections = c.max_connections,
          .max_regions = c.max_regions,
          .completion_queue = c.completion_queue,
          .send_queue = c.send_queue,
          .receive_queue = c.receive_queue,
          .window_packets = c.window_packets,
          .inline_buffers = c.inline_buffers,
          .max_reads = c.max_reads,
          .turn_packets = c.turn_packets,
          .half_open_before_cookie = c.half_open_before_cookie,
          .has_guardian = c.has_guardian,
          .partition_key = c.partition_key,
          .guardian_takeover_ns = c.guardian_takeover.count(),
          .seed = c.seed};
}

// What a struct of the C API does not have stays as the settings say.
OpenOptions to_cpp(const spindrift_open_options& c, const Settings& settings) {
  OpenOptions out{.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm};
  if (c.faults != nullptr) out.faults = c.faults;
  if (c.capture != nullptr) out.capture = c.capture;
  out.endpoint.max_connections = c.max_connections;
  out.endpoint.max_regions = c.max_regions;
  out.endpoint.completion_queue = c.completion_queue;
  out.endpoint.send_queue = c.send_queue;
  out.endpoint.receive_queue = c.receive_queue;
  out.endpoint.window_packets = c.window_packets;
  out.endpoint.inline_buffers = c.inline_buffers;
  out.endpoint.max_reads = c.max_reads;
  out.endpoint.turn_packets = c.turn_packets;
  out.endpoint.half_open_before_cookie = c.half_open_before_cookie;
  out.endpoint.has_guardian = c.has_guardian != 0;
  out.endpoint.partition_key = c.partition_key;
  out.endpoint.guardian_takeover = Duration(c.guardian_takeover_ns);
  out.endpoint.seed = c.seed;
  return out;
}

spindrift_register_options default_register_options() {
  const RegisterOptions options;
  return {.struct_size = sizeof(spindrift_register_options),
          .type = static_cast<std::uint32_t>(options.type),
          .dmabuf_fd = options.dmabuf_fd,
          .is_line_ordered = options.is_line_ordered,
          .reserved = 0};
}

int read_options(const spindrift_register_options* given, RegisterOptions& out) {
  if (given == nullptr) return SPINDRIFT_OK;
  spindrift_register_options c = default_register_options();
  const int code = read_struct(given, c);
  if (code != SPINDRIFT_OK) return code;
  if (c.type > SPINDRIFT_MEMORY_DMABUF || c.reserved != 0)
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                "spindrift_register_options.type must be 0 or 1, and reserved 0");
  out.type = static_cast<MemoryType>(c.type);
  out.dmabuf_fd = c.dmabuf_fd;
  out.is_line_ordered = c.is_line_ordered != 0;
  return SPINDRIFT_OK;
}

// Hands numbers on with names that end in a zero byte.
class CallbackWriter final : public CounterWriter, public StateWriter {
 public:
  CallbackWriter(spindrift_counter_fn count, spindrift_field_fn state, void* context)
      : count_(count), state_(state), context_(context) {}
  void counter(std::string_view name, std::uint64_t value) override {
    count_(context_, terminated(name), value);
  }
  void field(std::string_view name, double value) override {
    state_(context_, terminated(name), value);
  }

 private:
  const char* terminated(std::string_view name) {
    copy_text(name, text_.data(), text_.size());
    return text_.data();
  }

  spindrift_counter_fn count_;
  spindrift_field_fn state_;
  void* context_;
  std::array<char, 128> text_{};
};

}  // namespace

const char* spindrift_version(void) {
  return kVersion.data();
}

void spindrift_wire_versions(uint32_t* lowest, uint32_t* highest) {
  if (lowest != nullptr) *lowest = kWireVersionMin;
  if (highest != nullptr) *highest = kWireVersionMax;
}

int spindrift_open_options_init(spindrift_open_options* options, size_t struct_size) {
  return init_from_settings(options, struct_size,
                            [](const Settings& settings) { return c_options(settings.endpoint); });
}

int spindrift_register_options_init(spindrift_register_options* options, size_t struct_size) {
  return init_struct(options, struct_size, default_register_options());
}

int spindrift_open(const char* address, const spindrift_open_options* options,
                   spindrift_endpoint** endpoint) {
  return guarded<int>([&]() -> int {
    if (address == nullptr) return refuse_null("the address");
    if (endpoint == nullptr) return refuse_null("the endpoint");
    const Result<Settings>& settings = process_settings();
    if (!settings.ok()) return fail(settings.error());
    spindrift_open_options c = c_options(settings.value().endpoint);
    const int code = options == nullptr ? SPINDRIFT_OK : read_struct(options, c);
    if (code != SPINDRIFT_OK) return code;
    auto opened = open_endpoint(address, to_cpp(c, settings.value()));
    if (!opened.ok()) return fail(opened.error());
    *endpoint = new spindrift_endpoint{std::move(opened.value())};
    return SPINDRIFT_OK;
  });
}

void spindrift_destroy(spindrift_endpoint* endpoint) {
  delete endpoint;
}

int spindrift_register(spindrift_endpoint* endpoint, void* data, size_t bytes, uint32_t rights,
                       const spindrift_register_options* options, spindrift_region* region) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    int code = check_out(region);
    if (code != SPINDRIFT_OK) return code;
    RegisterOptions chosen;
    code = read_options(options, chosen);
    if (code != SPINDRIFT_OK) return code;
    if ((rights & ~kAllRights) != 0)
      return fail(SPINDRIFT_INVALID_ARGUMENT,
                  "rights has bits beyond SPINDRIFT_LOCAL_WRITE .. SPINDRIFT_REMOTE_ATOMIC");
    const auto made = e.register_memory({static_cast<std::byte*>(data), bytes},
                                        static_cast<Access>(rights), chosen);
    if (!made.ok()) return fail(made.error());
    const spindrift_region out{.struct_size = 0,
                               .data = data,
                               .bytes = bytes,
                               .local_key = made.value().local.value,
                               .rights = rights,
                               .remote_key = made.value().remote.key,
                               .remote_base = made.value().remote.base};
    write_struct(out, region->struct_size, region);
    return SPINDRIFT_OK;
  });
}

int spindrift_deregister(spindrift_endpoint* endpoint, const spindrift_region* region) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    spindrift_region given{};
    const int code = read_struct(region, given);
    if (code != SPINDRIFT_OK) return code;
    MemoryRegion named;
    named.bytes = {static_cast<std::byte*>(given.data), given.bytes};
    named.local.value = given.local_key;
    return code_of(e.deregister_memory(named));
  });
}

int spindrift_region_pack(const spindrift_region* region,
                          uint8_t wire[SPINDRIFT_REGION_WIRE_BYTES]) {
  return guarded<int>([&]() -> int {
    spindrift_region given{};
    const int code = read_struct(region, given);
    if (code != SPINDRIFT_OK) return code;
    if (wire == nullptr) return refuse_null("the bytes");
    const RemoteRegion remote{.key = given.remote_key,
                              .bytes = given.bytes,
                              .base = given.remote_base,
                              .rights = static_cast<Access>(given.rights & kAllRights)};
    const auto bytes = remote.serialize();
    std::memcpy(wire, bytes.data(), bytes.size());
    return SPINDRIFT_OK;
  });
}

int spindrift_region_unpack(const void* wire, size_t wire_bytes, spindrift_remote_region* region) {
  return guarded<int>([&]() -> int {
    const int code = check_out(region);
    if (code != SPINDRIFT_OK) return code;
    if (wire == nullptr) return refuse_null("the bytes");
    const auto remote =
        RemoteRegion::deserialize({static_cast<const std::byte*>(wire), wire_bytes});
    if (!remote.ok()) return fail(remote.error());
    const spindrift_remote_region out{.struct_size = 0,
                                      .key = remote.value().key,
                                      .bytes = remote.value().bytes,
                                      .base = remote.value().base,
                                      .rights = static_cast<std::uint32_t>(remote.value().rights),
                                      .reserved = 0};
    write_struct(out, region->struct_size, region);
    return SPINDRIFT_OK;
  });
}

int spindrift_counters(spindrift_endpoint* endpoint, spindrift_conn conn,
                       spindrift_counter_fn function, void* context) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (function == nullptr) return refuse_null("the callback");
    CallbackWriter writer(function, nullptr, context);
    if (conn == 0) {
      e.counters(writer);
      return SPINDRIFT_OK;
    }
    const auto info = e.info(ConnId{conn});
    if (!info.ok()) return fail(info.error());
    e.counters(ConnId{conn}, writer);
    return SPINDRIFT_OK;
  });
}

int spindrift_describe(spindrift_endpoint* endpoint, spindrift_conn conn,
                       spindrift_field_fn function, void* context) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (function == nullptr) return refuse_null("the callback");
    const auto info = e.info(ConnId{conn});
    if (!info.ok()) return fail(info.error());
    CallbackWriter writer(nullptr, function, context);
    e.describe(ConnId{conn}, writer);
    return SPINDRIFT_OK;
  });
}

ptrdiff_t spindrift_paths(spindrift_endpoint* endpoint, spindrift_conn conn,
                          spindrift_path_report* reports, size_t capacity) {
  return with_endpoint<ptrdiff_t>(endpoint, [&](Endpoint& e) -> ptrdiff_t {
    const int code = capacity == 0 ? SPINDRIFT_OK : check_out(reports);
    if (code != SPINDRIFT_OK) return code;
    const auto info = e.info(ConnId{conn});
    if (!info.ok()) return fail(info.error());
    const auto paths = e.paths(ConnId{conn});
    const std::size_t room = capacity == 0 ? 0 : reports->struct_size;
    for (std::size_t i = 0; i < std::min(paths.size(), capacity); ++i) {
      spindrift_path_report out{};
      copy_text(paths[i].local_address, out.local_address);
      copy_text(paths[i].remote_address, out.remote_address);
      copy_text(paths[i].state, out.state);
      out.packets_sent = paths[i].packets_sent;
      out.bytes_sent = paths[i].bytes_sent;
      out.packets_lost = paths[i].packets_lost;
      out.packets_marked = paths[i].packets_marked;
      out.rtt_ns = paths[i].rtt.count();
      write_struct(out, room, element(reports, i));
    }
    return static_cast<ptrdiff_t>(paths.size());
  });
}
