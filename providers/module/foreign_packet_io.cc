#include "providers/module/foreign_packet_io.h"

#include <array>
#include <optional>
#include <vector>

#include "spindrift/version.h"

namespace spindrift {
namespace {

// Takes the error of one call.
class TakenError {
 public:
  ModuleErrorSink sink() { return {.report = take, .to = this}; }
  Error error() const {
    return error_.value_or(Error(ErrorCode::kIo, "the provider's module does not say why"));
  }

 private:
  static void take(void* to, std::uint32_t code, const char* text, std::size_t bytes) {
    const auto known = code <= static_cast<std::uint32_t>(ErrorCode::kIo)
                           ? static_cast<ErrorCode>(code)
                           : ErrorCode::kIo;
    static_cast<TakenError*>(to)->error_.emplace(known, std::string(text, bytes));
  }
  std::optional<Error> error_;
};

class ForeignPacketIo final : public PacketIo {
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
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  std::uint16_t rail = 0;
  if (!call_.add_rail(self_, &local, &rail, &sink)) return taken.error();
  refresh();
  return rail;
}

std::vector<NetAddress> ForeignPacketIo::expand(const NetAddress& wildcard) const {
  std::vector<NetAddress> out(call_.expand(self_, &wildcard, nullptr, 0));
  call_.expand(self_, &wildcard, out.data(), out.size());
  return out;
}

Result<NetAddress> ForeignPacketIo::source_for(const NetAddress& remote) const {
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  NetAddress source;
  if (!call_.source_for(self_, &remote, &source, &sink)) return taken.error();
  return source;
}

Status ForeignPacketIo::open_entropies(std::uint16_t rail, std::uint16_t count) {
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  if (!call_.open_entropies(self_, rail, count, &sink)) return taken.error();
  return ok_status();
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

bool has_all_functions(const ModulePacketIo& io) {
  // All are pointers to functions, and nothing else.
  using Pointers = std::array<void*, sizeof(ModulePacketIo) / sizeof(void*)>;
  for (const void* pointer : std::bit_cast<Pointers>(io))
    if (pointer == nullptr) return false;
  return true;
}

}  // namespace

Status check_provider_module(const ProviderModule* module, std::string_view name) {
  const ProviderModule ours;
  if (module == nullptr) return Error(ErrorCode::kUnsupported, "it offers no provider");
  const bool is_same_build =
      module->struct_size == ours.struct_size && module->version == ours.version &&
      module->rx_packet_bytes == ours.rx_packet_bytes &&
      module->tx_packet_bytes == ours.tx_packet_bytes &&
      module->io_error_bytes == ours.io_error_bytes &&
      module->packet_io_bytes == ours.packet_io_bytes && module->caps_bytes == ours.caps_bytes &&
      module->library_version != nullptr && module->library_version == kVersion;
  if (!is_same_build)
    return Error(ErrorCode::kUnsupported, "it belongs to another version of the library than " +
                                              std::string(kVersion) +
                                              "; install both from one build");
  if (module->name == nullptr || module->name != name)
    return Error(ErrorCode::kUnsupported, "it is not the provider " + std::string(name));
  if (module->open == nullptr || module->probe == nullptr || !has_all_functions(module->packet_io))
    return Error(ErrorCode::kUnsupported, "a function is missing in its table");
  return ok_status();
}

Status probe_provider_module(const ProviderModule& module) {
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  if (!module.probe(&sink)) return taken.error();
  return ok_status();
}

Result<std::unique_ptr<PacketIo>> open_provider_module(const ProviderModule& module,
                                                       const std::string& url) {
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  void* self = module.open(url.data(), url.size(), &sink);
  if (self == nullptr) return taken.error();
  return std::unique_ptr<PacketIo>(std::make_unique<ForeignPacketIo>(module, self));
}

}  // namespace spindrift
