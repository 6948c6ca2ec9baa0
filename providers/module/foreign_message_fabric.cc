#include "providers/module/foreign_message_fabric.h"

#include <string>
#include <vector>

#include "providers/module/taken_error.h"

namespace spindrift {
namespace {

// One text that a module tells.
template <class Call>
std::string told(const Call& call) {
  std::string text;
  const ModuleTextSink sink{
      .take = [](void* to,
                 std::string_view words) { static_cast<std::string*>(to)->assign(words); },
      .to = &text};
  call(&sink);
  return text;
}

class ForeignMessageFabric final : public MessageFabric {
 public:
  ForeignMessageFabric(const ProviderModule& module, void* self)
      : call_(module.fabric), self_(self) {
    caps_.name = module.name;
    refresh();
  }
  ForeignMessageFabric(const ForeignMessageFabric&) = delete;
  ForeignMessageFabric& operator=(const ForeignMessageFabric&) = delete;
  ~ForeignMessageFabric() override { call_.destroy(self_); }

  const FabricCaps& caps() const override { return caps_; }
  Time now() const override { return Time(Duration(call_.now_ns(self_))); }
  Result<std::uint16_t> add_address(std::string_view address) override;
  std::span<const std::string> addresses() const override { return addresses_; }
  Status check_address(std::string_view address) const override {
    return called(
        [&](const ModuleErrorSink* sink) { return call_.check_address(self_, address, sink); });
  }
  Result<FabricPeer> connect(std::string_view address, std::span<const std::byte> hello,
                             std::uint16_t lanes) override;
  Status accept(FabricPeer peer, std::span<const std::byte> hello, std::uint16_t lanes) override {
    const ModuleHello says{.bytes = hello, .lanes = lanes};
    return called(
        [&](const ModuleErrorSink* sink) { return call_.accept(self_, peer, &says, sink); });
  }
  void refuse(FabricPeer peer, std::span<const std::byte> hello) override {
    call_.refuse(self_, peer, hello);
  }
  void drop(FabricPeer peer) override { call_.drop(self_, peer); }
  std::string describe_peer(FabricPeer peer) const override {
    return told([&](const ModuleTextSink* sink) { call_.describe_peer(self_, peer, sink); });
  }
  Reach reach(FabricPeer peer) const override {
    Reach out;
    call_.reach(self_, peer, &out);
    return out;
  }
  std::string describe_lane(FabricPeer peer, std::uint16_t lane) const override {
    return told([&](const ModuleTextSink* sink) { call_.describe_lane(self_, peer, lane, sink); });
  }
  std::size_t poll_events(std::span<FabricEvent> out) override;
  Status add_region(LocalKey region, std::span<std::byte> bytes) override {
    return called(
        [&](const ModuleErrorSink* sink) { return call_.add_region(self_, region, bytes, sink); });
  }
  Status add_device_region(LocalKey region, std::span<std::byte> bytes, int dmabuf_fd) override {
    return called([&](const ModuleErrorSink* sink) {
      return call_.add_device_region(self_, region, bytes, dmabuf_fd, sink);
    });
  }
  void remove_region(LocalKey region) override { call_.remove_region(self_, region); }
  RemoteSpan offer(FabricPeer peer, const Sge& piece) override {
    RemoteSpan out;
    call_.offer(self_, peer, &piece, &out);
    return out;
  }
  std::size_t post(std::span<const FabricOp> ops) override {
    return call_.post(self_, ops.data(), ops.size());
  }
  std::size_t poll(std::span<FabricCompletion> out) override {
    return call_.poll(self_, out.data(), out.size());
  }
  void release(const FabricCompletion& message) override { call_.release(self_, &message); }
  std::string last_error(FabricPeer peer) const override {
    return told([&](const ModuleTextSink* sink) { call_.last_error(self_, peer, sink); });
  }
  void set_status(FabricPeer peer, const FabricStatus& status) override {
    call_.set_status(self_, peer, &status);
  }
  FabricStatus status(FabricPeer peer) const override {
    FabricStatus out;
    call_.status(self_, peer, &out);
    return out;
  }
  void append_wait_fds(std::vector<int>& out) const override;
  bool arm() override { return call_.arm(self_); }
  void counters(CounterWriter& out) const override;

 private:
  void refresh();

  const ModuleMessageFabric call_;
  void* self_;
  FabricCaps caps_;
  std::vector<std::string> addresses_;
};

// Addresses may change what the medium can do, and how fast it is.
void ForeignMessageFabric::refresh() {
  ModuleFabricCaps caps;
  call_.caps(self_, &caps);
  caps_.max_peers = caps.max_peers;
  caps_.max_payload_bytes = caps.max_payload_bytes;
  caps_.max_read_bytes = caps.max_read_bytes;
  caps_.read_from_bytes = caps.read_from_bytes;
  caps_.read_chunk_bytes = caps.read_chunk_bytes;
  caps_.max_read_local = caps.max_read_local;
  caps_.max_read_remote = caps.max_read_remote;
  caps_.max_held = caps.max_held;
  caps_.max_lanes = caps.max_lanes;
  caps_.sprays_messages = caps.sprays_messages != 0;
  caps_.read_rtt = Duration(caps.read_rtt_ns);
  caps_.link_rate = Rate::bits_per_second(caps.link_rate_bps);
  addresses_.clear();
  const ModuleTextSink sink{.take =
                                [](void* to, std::string_view address) {
                                  static_cast<std::vector<std::string>*>(to)->emplace_back(address);
                                },
                            .to = &addresses_};
  call_.addresses(self_, &sink);
}

Result<std::uint16_t> ForeignMessageFabric::add_address(std::string_view address) {
  std::uint16_t index = 0;
  const Status added = called(
      [&](const ModuleErrorSink* sink) { return call_.add_address(self_, address, &index, sink); });
  if (!added.ok()) return added.error();
  refresh();
  return index;
}

Result<FabricPeer> ForeignMessageFabric::connect(std::string_view address,
                                                 std::span<const std::byte> hello,
                                                 std::uint16_t lanes) {
  FabricPeer peer{};
  const ModuleHello says{.bytes = hello, .lanes = lanes};
  const Status connected = called([&](const ModuleErrorSink* sink) {
    return call_.connect(self_, address, &says, &peer, sink);
  });
  if (!connected.ok()) return connected.error();
  return peer;
}

std::size_t ForeignMessageFabric::poll_events(std::span<FabricEvent> out) {
  struct Taking {
    std::span<FabricEvent> out;
    std::size_t count = 0;
  } taking{.out = out};
  const ModuleEventSink sink{.take =
                                 [](void* to, const ModuleFabricEvent* event) {
                                   auto& into = *static_cast<Taking*>(to);
                                   into.out[into.count++] = {
                                       .kind = event->kind,
                                       .peer = event->peer,
                                       .address = event->address,
                                       .hello = {event->hello.begin(), event->hello.end()},
                                       .cause = std::string(event->cause)};
                                 },
                             .to = &taking};
  call_.poll_events(self_, out.size(), &sink);
  return taking.count;
}

void ForeignMessageFabric::append_wait_fds(std::vector<int>& out) const {
  const std::size_t before = out.size();
  out.resize(before + call_.wait_fds(self_, nullptr, 0));
  call_.wait_fds(self_, out.data() + before, out.size() - before);
}

void ForeignMessageFabric::counters(CounterWriter& out) const {
  call_.counters(
      self_,
      [](void* to, const char* name, std::size_t bytes, std::uint64_t value) {
        static_cast<CounterWriter*>(to)->counter({name, bytes}, value);
      },
      &out);
}

}  // namespace

std::unique_ptr<MessageFabric> make_foreign_message_fabric(const ProviderModule& module,
                                                           void* self) {
  return std::make_unique<ForeignMessageFabric>(module, self);
}

}  // namespace spindrift
