#include "providers/module/export_message_fabric.h"

#include <string>
#include <vector>

#include "providers/module/export_call.h"

namespace spindrift {
namespace {

MessageFabric& fabric(void* self) {
  return *static_cast<MessageFabric*>(self);
}
const MessageFabric& fabric(const void* self) {
  return *static_cast<const MessageFabric*>(self);
}

void write_caps(const void* self, ModuleFabricCaps* out) {
  const FabricCaps& caps = fabric(self).caps();
  *out = {.max_peers = caps.max_peers,
          .max_payload_bytes = caps.max_payload_bytes,
          .max_read_bytes = caps.max_read_bytes,
          .read_from_bytes = caps.read_from_bytes,
          .read_chunk_bytes = caps.read_chunk_bytes,
          .max_held = caps.max_held,
          .max_read_local = caps.max_read_local,
          .max_read_remote = caps.max_read_remote,
          .max_lanes = caps.max_lanes,
          .sprays_messages = caps.sprays_messages,
          .link_rate_bps = caps.link_rate.bits_per_second(),
          .read_rtt_ns = caps.read_rtt.count()};
}

bool add_address(void* self, std::string_view address, std::uint16_t* index,
                 const ModuleErrorSink* sink) {
  return guarded(*sink, [&] {
    auto added = fabric(self).add_address(address);
    if (added.ok()) *index = added.value();
    return added;
  });
}

void addresses(const void* self, const ModuleTextSink* sink) {
  for (const std::string& address : fabric(self).addresses())
    sink->take(sink->to, address);
}

bool connect(void* self, std::string_view address, const ModuleHello* hello, FabricPeer* peer,
             const ModuleErrorSink* sink) {
  return guarded(*sink, [&] {
    auto called = fabric(self).connect(address, hello->bytes, hello->lanes);
    if (called.ok()) *peer = called.value();
    return called;
  });
}

// One at a time: mostly there are none, and then this costs next to nothing.
std::size_t poll_events(void* self, std::size_t most, const ModuleEventSink* sink) {
  FabricEvent event;
  std::size_t count = 0;
  for (; count < most && fabric(self).poll_events({&event, 1}) == 1; ++count) {
    const ModuleFabricEvent out{.kind = event.kind,
                                .address = event.address,
                                .peer = event.peer,
                                .hello = event.hello,
                                .cause = event.cause};
    sink->take(sink->to, &out);
  }
  return count;
}

void set_up_calls(ModuleMessageFabric& out) {
  out.add_address = add_address;
  out.addresses = addresses;
  out.check_address = [](const void* self, std::string_view address, const ModuleErrorSink* sink) {
    return guarded(*sink, [&] { return fabric(self).check_address(address); });
  };
  out.connect = connect;
  out.accept = [](void* self, FabricPeer peer, const ModuleHello* hello,
                  const ModuleErrorSink* sink) {
    return guarded(*sink, [&] { return fabric(self).accept(peer, hello->bytes, hello->lanes); });
  };
  out.refuse = [](void* self, FabricPeer peer, std::span<const std::byte> hello) {
    fabric(self).refuse(peer, hello);
  };
  out.drop = [](void* self, FabricPeer peer) { fabric(self).drop(peer); };
  out.describe_peer = [](const void* self, FabricPeer peer, const ModuleTextSink* sink) {
    sink->take(sink->to, fabric(self).describe_peer(peer));
  };
  out.describe_lane = [](const void* self, FabricPeer peer, std::uint16_t lane,
                         const ModuleTextSink* sink) {
    sink->take(sink->to, fabric(self).describe_lane(peer, lane));
  };
  out.reach = [](const void* self, FabricPeer peer, MessageFabric::Reach* to) {
    *to = fabric(self).reach(peer);
  };
  out.add_region = [](void* self, LocalKey region, std::span<std::byte> bytes,
                      const ModuleErrorSink* sink) {
    return guarded(*sink, [&] { return fabric(self).add_region(region, bytes); });
  };
  out.add_device_region = [](void* self, LocalKey region, std::span<std::byte> bytes, int dmabuf_fd,
                             const ModuleErrorSink* sink) {
    return guarded(*sink, [&] { return fabric(self).add_device_region(region, bytes, dmabuf_fd); });
  };
  out.remove_region = [](void* self, LocalKey region) { fabric(self).remove_region(region); };
}

}  // namespace

ModuleMessageFabric message_fabric_functions() {
  ModuleMessageFabric out;
  set_up_calls(out);
  out.destroy = [](void* self) { delete &fabric(self); };
  out.caps = write_caps;
  out.now_ns = [](const void* self) {
    return static_cast<std::int64_t>(fabric(self).now().time_since_epoch().count());
  };
  out.poll_events = poll_events;
  out.offer = [](void* self, FabricPeer peer, const Sge* piece, RemoteSpan* to) {
    *to = fabric(self).offer(peer, *piece);
  };
  out.post = [](void* self, const FabricOp* ops, std::size_t count) {
    return fabric(self).post({ops, count});
  };
  out.poll = [](void* self, FabricCompletion* to, std::size_t count) {
    return fabric(self).poll({to, count});
  };
  out.release = [](void* self, const FabricCompletion* message) { fabric(self).release(*message); };
  out.last_error = [](const void* self, FabricPeer peer, const ModuleTextSink* sink) {
    sink->take(sink->to, fabric(self).last_error(peer));
  };
  out.set_status = [](void* self, FabricPeer peer, const FabricStatus* status) {
    fabric(self).set_status(peer, *status);
  };
  out.status = [](const void* self, FabricPeer peer, FabricStatus* to) {
    *to = fabric(self).status(peer);
  };
  out.wait_fds = [](const void* self, int* to, std::size_t capacity) {
    std::vector<int> all;
    fabric(self).append_wait_fds(all);
    return copy_out(std::span<const int>(all), to, capacity);
  };
  out.arm = [](void* self) { return fabric(self).arm(); };
  out.counters = [](const void* self, ExportedCounters::Write write, void* to) {
    ExportedCounters writer(write, to);
    fabric(self).counters(writer);
  };
  return out;
}

}  // namespace spindrift
