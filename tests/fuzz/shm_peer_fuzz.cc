// An endpoint over shared memory and a peer that says anything: records, words, offers, in any
// order. It never crashes, never writes outside the region that the peer was granted, and the
// connection can always be given up.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <unistd.h>

#include "spindrift/open.h"

#include "providers/shm/shm_fabric.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"
#include "transport/message/message_record.h"
#include "transport/wire/hello.h"

namespace spindrift {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr std::size_t kRegionBytes = 512;
constexpr std::byte kGuard{0x5a};
// Addresses that a peer may offer: memory of its own, and none.
alignas(64) std::array<std::byte, 4096> offered_memory;

class Victim {
 public:
  Victim() {
    memory_.fill(kGuard);
    OpenOptions options;
    options.endpoint.max_connections = 4;
    options.endpoint.send_queue = 8;
    options.endpoint.receive_queue = 8;
    options.endpoint.max_reads = 4;
    options.endpoint.inline_buffers = 8;
    options.shm.ring_bytes = 65536;
    options.shm.single_copy = SingleCopy::kAuto;
    options.shm.single_copy_bytes = 256;
    endpoint_ = open_endpoint("shm://fuzz-" + std::to_string(::getpid()), options).value();
    SPINDRIFT_CHECK(endpoint_->listen("shm://").ok());
    region_ =
        endpoint_
            ->register_memory(std::span(memory_).subspan(kGuardBytes, kRegionBytes), kAllAccess)
            .value();
  }
  Endpoint& endpoint() { return *endpoint_; }
  const MemoryRegion& region() const { return region_; }
  // The address that peers call, without the scheme.
  std::string name() const { return endpoint_->local_addresses().at(0).substr(6); }
  void post_work(ConnId conn) {
    const Sge piece = sge_of(region_, 0, 64);
    const Sge much = sge_of(region_, 0, kRegionBytes);
    const WorkRequest work[] = {
        {.conn = conn, .kind = OpKind::kReceive, .local = {&piece, 1}},
        {.conn = conn, .kind = OpKind::kReceive, .local = {&much, 1}},
        {.conn = conn, .kind = OpKind::kRead, .local = {&much, 1}, .remote_key = 7},
        {.conn = conn, .kind = OpKind::kFetchAdd, .local = {&piece, 1}, .remote_key = 7},
        {.conn = conn, .kind = OpKind::kSend, .local = {&piece, 1}},
    };
    for (const WorkRequest& one : work)
      static_cast<void>(endpoint_->post({&one, 1}));
  }
  void check() {
    for (std::size_t i = 0; i < kGuardBytes; ++i)
      SPINDRIFT_CHECK(memory_[i] == kGuard && memory_[kGuardBytes + kRegionBytes + i] == kGuard);
  }

 private:
  std::array<std::byte, 2 * kGuardBytes + kRegionBytes> memory_;
  std::unique_ptr<Endpoint> endpoint_;
  MemoryRegion region_;
};

class Liar {
 public:
  Liar(Victim& victim, FuzzInput& input)
      : victim_(victim),
        input_(input),
        fabric_(std::move(open_shm({.ring_bytes = 65536}).value())) {}

  void run() {
    if (!connect()) return;
    victim_.post_work(conn_);
    while (!input_.is_empty())
      step();
    for (int i = 0; i < 4; ++i)
      turn();
    victim_.endpoint().release(conn_);
    drain();
    victim_.check();
  }

 private:
  bool connect() {
    wire::Hello hello;
    hello.version_min = 1;
    hello.version_max = 1;
    hello.nonce = 1;
    hello.payload_mtu = 4096;
    hello.crc = 2;
    hello.receive_credits = input_.u8() % 4;
    hello.max_reads = 4;
    std::array<std::byte, wire::kMaxHelloBytes> bytes{};
    const std::size_t length = wire::encode(hello, bytes);
    peer_ = fabric_->connect(victim_.name(), std::span(bytes).first(length), 1).value();
    ConnEvent event;
    for (int i = 0; i < 1000; ++i) {
      turn();
      FabricEvent mine;
      static_cast<void>(fabric_->poll_events({&mine, 1}));
      while (victim_.endpoint().poll_events({&event, 1}) == 1) {
        if (event.kind == ConnEvent::Kind::kRequest && victim_.endpoint().accept(event.conn).ok())
          conn_ = event.conn;
        if (event.kind == ConnEvent::Kind::kEstablished && event.conn == conn_) return true;
      }
    }
    victim_.endpoint().release(conn_);
    return false;
  }
  void turn() {
    victim_.endpoint().progress();
    drain();
  }
  void drain() {
    std::array<Completion, 32> done;
    while (victim_.endpoint().poll(done) != 0) {
    }
    ConnEvent event;
    if (conn_.value != 0)
      while (victim_.endpoint().poll_events({&event, 1}) == 1) {
      }
  }
  void step() {
    switch (input_.u8() % 8) {
      case 0:
        turn();
        return;
      case 1:
        show();
        return;
      default:
        say();
    }
  }
  void show() {
    FabricStatus status;
    for (std::uint64_t& word : status.words)
      word = input_.u8() | std::uint64_t{input_.u8()} << 32;
    fabric_->set_status(peer_, status);
  }
  std::uint64_t key() { return input_.u8() % 8 == 0 ? input_.u8() : victim_.region().remote.key; }
  void say() {
    Record record;
    record.kind = static_cast<RecordKind>(input_.u8() % 14);
    record.flags = input_.u8() % 2;
    record.epoch = input_.u8() % 3;
    record.done = input_.u8() % 8;
    record.credits = input_.u8() % 8;
    record.length = input_.u8() * (input_.u8() % 32 + 1U);
    record.immediate = input_.u8() % 8;
    record.key = key();
    record.offset = input_.u8() % 8 == 0 ? ~std::uint64_t{input_.u8()} : input_.u8();
    record.operand = input_.u8();
    std::array<std::byte, 600> payload{};
    std::size_t bytes = input_.u8() * (input_.u8() % 2 + 1U);
    if (record.flags != 0) {
      const OfferedPiece piece{
          .address = input_.u8() % 4 == 0 ? input_.u8()
                                          : reinterpret_cast<std::uintptr_t>(offered_memory.data()),
          .bytes = record.length};
      std::memcpy(payload.data(), &piece, sizeof(piece));
      if (bytes % 4 != 0) bytes = sizeof(piece);
    }
    const Sge piece{.data = payload.data(), .bytes = static_cast<std::uint32_t>(bytes)};
    FabricOp op{.peer = peer_};
    op.header = std::as_bytes(std::span(&record, 1)).first(record_bytes(record.kind));
    op.local = {&piece, 1};
    static_cast<void>(fabric_->post({&op, 1}));
  }

  Victim& victim_;
  FuzzInput& input_;
  std::unique_ptr<MessageFabric> fabric_;
  FabricPeer peer_{};
  ConnId conn_{};
};

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const victim = new spindrift::Victim;
  spindrift::FuzzInput input({data, size});
  spindrift::Liar(*victim, input).run();
  return 0;
}
