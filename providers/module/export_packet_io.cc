#include "providers/module/export_packet_io.h"

#include <vector>

#include "spindrift/provider.h"
#include "spindrift/region_user.h"

#include "providers/module/export_call.h"

namespace spindrift {
namespace {

PacketIo& io(void* self) {
  return *static_cast<PacketIo*>(self);
}
const PacketIo& io(const void* self) {
  return *static_cast<const PacketIo*>(self);
}

void write_caps(const void* self, ModuleCaps* out) {
  const PacketIoCaps& caps = io(self).caps();
  *out = {.max_packet_bytes = caps.max_packet_bytes,
          .max_burst_bytes = caps.max_burst_bytes,
          .frame_overhead_bytes = caps.frame_overhead_bytes,
          .max_burst_packets = caps.max_burst_packets,
          .batch = caps.batch,
          .entropies = caps.entropies,
          .has_ecn = caps.has_ecn,
          .echoes_telemetry = caps.echoes_telemetry,
          .has_rx_timestamp = caps.has_rx_timestamp,
          .copies_on_send = caps.copies_on_send,
          .receive_buffer_bytes = caps.receive_buffer_bytes,
          .link_rate_bps = caps.link_rate.bits_per_second(),
          .host_latency_ns = caps.host_latency.count()};
}

bool add_rail(void* self, const NetAddress* local, std::uint16_t* rail,
              const ModuleErrorSink* sink) {
  return guarded(*sink, [&] {
    auto added = io(self).add_rail(*local);
    if (added.ok()) *rail = added.value();
    return added;
  });
}

bool source_for(const void* self, const NetAddress* remote, NetAddress* out,
                const ModuleErrorSink* sink) {
  return guarded(*sink, [&] {
    auto source = io(self).source_for(*remote);
    if (source.ok()) *out = source.value();
    return source;
  });
}

bool open_entropies(void* self, std::uint16_t rail, std::uint16_t count,
                    const ModuleErrorSink* sink) {
  return guarded(*sink, [&] { return io(self).open_entropies(rail, count); });
}

}  // namespace

ModulePacketIo packet_io_functions() {
  ModulePacketIo out;
  out.destroy = [](void* self) { delete &io(self); };
  out.caps = write_caps;
  out.now_ns = [](const void* self) {
    return static_cast<std::int64_t>(io(self).now().time_since_epoch().count());
  };
  out.add_rail = add_rail;
  out.rails = [](const void* self, NetAddress* to, std::size_t capacity) {
    return copy_out(io(self).rails(), to, capacity);
  };
  out.expand = [](const void* self, const NetAddress* wildcard, NetAddress* to,
                  std::size_t capacity) {
    const std::vector<NetAddress> all = io(self).expand(*wildcard);
    return copy_out(std::span(all), to, capacity);
  };
  out.source_for = source_for;
  out.max_packet_bytes = [](const void* self, std::uint16_t rail, const NetAddress* remote) {
    return io(self).max_packet_bytes(rail, *remote);
  };
  out.open_entropies = open_entropies;
  out.add_region = [](void* self, std::uint32_t region, std::byte* data, std::size_t bytes) {
    if (auto* user = dynamic_cast<RegionUser*>(&io(self)))
      user->add_region({region}, {data, bytes});
  };
  out.remove_region = [](void* self, std::uint32_t region) {
    if (auto* user = dynamic_cast<RegionUser*>(&io(self))) user->remove_region({region});
  };
  out.receive = [](void* self, RxPacket* to, std::size_t count) {
    return io(self).receive({to, count});
  };
  out.release = [](void* self, const RxPacket* packets, std::size_t count) {
    io(self).release({packets, count});
  };
  out.reserve = [](void* self, TxPacket* to, std::size_t count) {
    return io(self).reserve({to, count});
  };
  out.send = [](void* self, const TxPacket* packets, std::size_t count) {
    io(self).send({packets, count});
  };
  out.released = [](const void* self) { return io(self).released(); };
  out.poll_errors = [](void* self, IoError* to, std::size_t count) {
    return io(self).poll_errors({to, count});
  };
  out.wait_fds = [](const void* self, int* to, std::size_t capacity) {
    std::vector<int> all;
    io(self).append_wait_fds(all);
    return copy_out(std::span<const int>(all), to, capacity);
  };
  out.has_unsent = [](const void* self) { return io(self).has_unsent(); };
  out.counters = [](const void* self, ExportedCounters::Write write, void* to) {
    ExportedCounters writer(write, to);
    io(self).counters(writer);
  };
  return out;
}

}  // namespace spindrift
