#include "providers/module/foreign_packet_io.h"

#include <vector>

#include "spindrift/region_user.h"

#include "providers/module/taken_error.h"

namespace spindrift {
namespace {

class ForeignPacketIo final : public PacketIo, public RegionUser {
 public:
  ForeignPacketIo(const ProviderModule& module, void* self) : call_(module.packet_io), self_(self) {
    caps_.name = module.name;
    refresh();
  }
  ForeignPacketIo(const ForeignPacketIo&) = delete;
  ForeignPacketIo& operator=(const ForeignPacketIo&) = delete;
  ~ForeignPacketIo() override { call_.destroy(self_); }

  const PacketIoCaps& caps() const override { return caps_; }
  Time now() const override { return Time(Duration(call_.now_ns(self_))); }
  Result<std::uint16_t> add_rail(const NetAddress& local) override;
  std::span<const NetAddress> rails() const override { return rails_; }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override;
  Result<NetAddress> source_for(const NetAddress& remote) const override;
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override {
    return call_.max_packet_bytes(self_, rail, &remote);
  }
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;
  void add_region(LocalKey region, std::span<std::byte> bytes) override {
    call_.add_region(self_, region.value, bytes.data(), bytes.size());
  }
  void remove_region(LocalKey region) override { call_.remove_region(self_, region.value); }
  std::size_t receive(std::span<RxPacket> out) override {
    return call_.receive(self_, out.data(), out.size());
  }
  void release(std::span<const RxPacket> packets) override {
    call_.release(self_, packets.data(), packets.size());
  }
  std::size_t reserve(std::span<TxPacket> out) override {
    return call_.reserve(self_, out.data(), out.size());
  }
  void send(std::span<const TxPacket> packets) override {
    call_.send(self_, packets.data(), packets.size());
  }
  std::uint64_t released() const override { return call_.released(self_); }
  std::size_t poll_errors(std::span<IoError> out) override {
    return call_.poll_errors(self_, out.data(), out.size());
  }
  void append_wait_fds(std::vector<int>& out) const override;
  bool has_unsent() const override { return call_.has_unsent(self_); }
  void counters(CounterWriter& out) const override;

 private:
  void refresh();

  const ModulePacketIo call_;
  void* self_;
  PacketIoCaps caps_;
  std::vector<NetAddress> rails_;
};

// Rails change what the provider can do, and how fast its link is.
void ForeignPacketIo::refresh() {
  ModuleCaps caps;
  call_.caps(self_, &caps);
  caps_.max_packet_bytes = caps.max_packet_bytes;
  caps_.max_burst_bytes = caps.max_burst_bytes;
  caps_.max_burst_packets = caps.max_burst_packets;
  caps_.frame_overhead_bytes = caps.frame_overhead_bytes;
  caps_.batch = caps.batch;
  caps_.entropies = caps.entropies;
  caps_.receive_buffer_bytes = caps.receive_buffer_bytes;
  caps_.link_rate = Rate::bits_per_second(caps.link_rate_bps);
  caps_.host_latency = Duration(caps.host_latency_ns);
  caps_.has_ecn = caps.has_ecn != 0;
  caps_.echoes_telemetry = caps.echoes_telemetry != 0;
  caps_.has_rx_timestamp = caps.has_rx_timestamp != 0;
  caps_.copies_on_send = caps.copies_on_send != 0;
  rails_.resize(call_.rails(self_, nullptr, 0));
  call_.rails(self_, rails_.data(), rails_.size());
}

Result<std::uint16_t> ForeignPacketIo::add_rail(const NetAddress& local) {
  std::uint16_t rail = 0;
  const Status added = called(
      [&](const ModuleErrorSink* sink) { return call_.add_rail(self_, &local, &rail, sink); });
  if (!added.ok()) return added.error();
  refresh();
  return rail;
}

std::vector<NetAddress> ForeignPacketIo::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> out(call_.expand(self_, &wildcard, nullptr, 0));
  call_.expand(self_, &wildcard, out.data(), out.size());
  return out;
}

Result<NetAddress> ForeignPacketIo::source_for(const NetAddress& remote) const {
  NetAddress source;
  const Status found = called(
      [&](const ModuleErrorSink* sink) { return call_.source_for(self_, &remote, &source, sink); });
  if (!found.ok()) return found.error();
  return source;
}

Status ForeignPacketIo::open_entropies(std::uint16_t rail, std::uint16_t count) {
  return called(
      [&](const ModuleErrorSink* sink) { return call_.open_entropies(self_, rail, count, sink); });
}

void ForeignPacketIo::append_wait_fds(std::vector<int>& out) const {
  const std::size_t before = out.size();
  out.resize(before + call_.wait_fds(self_, nullptr, 0));
  call_.wait_fds(self_, out.data() + before, out.size() - before);
}

void ForeignPacketIo::counters(CounterWriter& out) const {
  call_.counters(
      self_,
      [](void* to, const char* name, std::size_t bytes, std::uint64_t value) {
        static_cast<CounterWriter*>(to)->counter({name, bytes}, value);
      },
      &out);
}

}  // namespace

std::unique_ptr<PacketIo> make_foreign_packet_io(const ProviderModule& module, void* self) {
  return std::make_unique<ForeignPacketIo>(module, self);
}

}  // namespace spindrift
