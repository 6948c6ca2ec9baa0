#pragma once
// The border to providers in shared objects of their own, which bring libraries that Spindrift does
// not link (DPDK, ...). Both sides are built from one source; the sizes and the version in the
// table refuse others. Only plain data and function pointers cross: no object, no exception, no
// memory that the other side would have to free.
//
// Such a shared object exports
//   extern "C" const spindrift::ProviderModule* spindrift_provider_module();
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "spindrift/message_fabric.h"
#include "spindrift/provider.h"

namespace spindrift {

inline constexpr std::uint32_t kProviderModuleVersion = 3;
inline constexpr const char* kProviderModuleSymbol = "spindrift_provider_module";

static_assert(std::is_trivially_copyable_v<RxPacket> && std::is_standard_layout_v<RxPacket>);
static_assert(std::is_trivially_copyable_v<TxPacket> && std::is_standard_layout_v<TxPacket>);
static_assert(std::is_trivially_copyable_v<IoError> && std::is_standard_layout_v<IoError>);
static_assert(std::is_trivially_copyable_v<NetAddress> && std::is_standard_layout_v<NetAddress>);
static_assert(std::is_trivially_copyable_v<FabricOp> && std::is_standard_layout_v<FabricOp>);
static_assert(std::is_trivially_copyable_v<FabricCompletion> &&
              std::is_standard_layout_v<FabricCompletion>);
static_assert(std::is_trivially_copyable_v<FabricStatus>);

// Where an error goes: valid during the call. `code` is an ErrorCode.
struct ModuleErrorSink {
  void (*report)(void* to, std::uint32_t code, const char* text, std::size_t bytes) = nullptr;
  void* to = nullptr;
};

// Where texts go, as many as there are; each valid during its call.
struct ModuleTextSink {
  void (*take)(void* to, std::string_view text) = nullptr;
  void* to = nullptr;
};

// What is said about devices, fact by fact: valid during the call.
struct ModuleFact {
  std::string_view device;  // "mlx5_0 port 1"
  std::string_view name;    // "state"
  std::string_view value;
};
struct ModuleFactSink {
  void (*take)(void* to, const ModuleFact* fact) = nullptr;
  void* to = nullptr;
};

// PacketIoCaps without its name.
struct ModuleCaps {
  std::uint32_t max_packet_bytes = 0;
  std::uint32_t max_burst_bytes = 0;
  std::uint32_t frame_overhead_bytes = 0;
  std::uint16_t max_burst_packets = 1;
  std::uint16_t batch = 0;
  std::uint16_t entropies = 0;
  std::uint8_t has_ecn = 0;
  std::uint8_t echoes_telemetry = 0;
  std::uint8_t has_rx_timestamp = 0;
  std::uint8_t copies_on_send = 0;
  std::uint64_t receive_buffer_bytes = 0;
  std::uint64_t link_rate_bps = 0;
  std::int64_t host_latency_ns = 0;
};

// One per function of PacketIo, with `self` in front. Functions that may fail return false after
// having reported why.
struct ModulePacketIo {
  void (*destroy)(void* self) = nullptr;
  void (*caps)(const void* self, ModuleCaps* out) = nullptr;
  std::int64_t (*now_ns)(const void* self) = nullptr;
  bool (*add_rail)(void* self, const NetAddress* local, std::uint16_t* rail,
                   const ModuleErrorSink* sink) = nullptr;
  // The first `capacity` of them; how many there are.
  std::size_t (*rails)(const void* self, NetAddress* out, std::size_t capacity) = nullptr;
  std::size_t (*expand)(const void* self, const NetAddress* wildcard, NetAddress* out,
                        std::size_t capacity) = nullptr;
  bool (*source_for)(const void* self, const NetAddress* remote, NetAddress* out,
                     const ModuleErrorSink* sink) = nullptr;
  std::uint32_t (*max_packet_bytes)(const void* self, std::uint16_t rail,
                                    const NetAddress* remote) = nullptr;
  bool (*open_entropies)(void* self, std::uint16_t rail, std::uint16_t count,
                         const ModuleErrorSink* sink) = nullptr;
  // Of a RegionUser; of others they do nothing.
  void (*add_region)(void* self, std::uint32_t region, std::byte* data,
                     std::size_t bytes) = nullptr;
  void (*remove_region)(void* self, std::uint32_t region) = nullptr;
  std::size_t (*receive)(void* self, RxPacket* out, std::size_t count) = nullptr;
  void (*release)(void* self, const RxPacket* packets, std::size_t count) = nullptr;
  std::size_t (*reserve)(void* self, TxPacket* out, std::size_t count) = nullptr;
  void (*send)(void* self, const TxPacket* packets, std::size_t count) = nullptr;
  std::uint64_t (*released)(const void* self) = nullptr;
  std::size_t (*poll_errors)(void* self, IoError* out, std::size_t count) = nullptr;
  std::size_t (*wait_fds)(const void* self, int* out, std::size_t capacity) = nullptr;
  bool (*has_unsent)(const void* self) = nullptr;
  void (*counters)(const void* self,
                   void (*write)(void* to, const char* name, std::size_t bytes,
                                 std::uint64_t value),
                   void* to) = nullptr;
};

// FabricCaps without its name.
struct ModuleFabricCaps {
  std::uint32_t max_peers = 0;
  std::uint32_t max_payload_bytes = 0;
  std::uint32_t max_read_bytes = 0;
  std::uint32_t read_from_bytes = 0;
  std::uint32_t read_chunk_bytes = 0;
  std::uint32_t max_held = 0;
  std::uint16_t max_read_local = 0;
  std::uint16_t max_read_remote = 0;
  std::uint16_t max_lanes = 0;
  std::uint8_t sprays_messages = 0;
  std::uint64_t link_rate_bps = 0;
  std::int64_t read_rtt_ns = 0;
};

// FabricEvent; what it points to is valid during the call that brings it.
struct ModuleFabricEvent {
  FabricEvent::Kind kind = FabricEvent::Kind::kRequest;
  std::uint16_t address = 0;
  FabricPeer peer{};
  std::span<const std::byte> hello{};
  std::string_view cause{};
};
// What connect() and accept() are given.
struct ModuleHello {
  std::span<const std::byte> bytes{};
  std::uint16_t lanes = 1;
};
struct ModuleEventSink {
  void (*take)(void* to, const ModuleFabricEvent* event) = nullptr;
  void* to = nullptr;
};

// One per function of MessageFabric, with `self` in front. Functions that may fail return false
// after having reported why.
struct ModuleMessageFabric {
  void (*destroy)(void* self) = nullptr;
  void (*caps)(const void* self, ModuleFabricCaps* out) = nullptr;
  std::int64_t (*now_ns)(const void* self) = nullptr;
  bool (*add_address)(void* self, std::string_view address, std::uint16_t* index,
                      const ModuleErrorSink* sink) = nullptr;
  void (*addresses)(const void* self, const ModuleTextSink* sink) = nullptr;
  bool (*check_address)(const void* self, std::string_view address,
                        const ModuleErrorSink* sink) = nullptr;
  bool (*connect)(void* self, std::string_view address, const ModuleHello* hello, FabricPeer* peer,
                  const ModuleErrorSink* sink) = nullptr;
  bool (*accept)(void* self, FabricPeer peer, const ModuleHello* hello,
                 const ModuleErrorSink* sink) = nullptr;
  void (*refuse)(void* self, FabricPeer peer, std::span<const std::byte> hello) = nullptr;
  void (*drop)(void* self, FabricPeer peer) = nullptr;
  void (*describe_peer)(const void* self, FabricPeer peer, const ModuleTextSink* sink) = nullptr;
  void (*reach)(const void* self, FabricPeer peer, MessageFabric::Reach* out) = nullptr;
  void (*describe_lane)(const void* self, FabricPeer peer, std::uint16_t lane,
                        const ModuleTextSink* sink) = nullptr;
  // At most `most` of them; how many there were.
  std::size_t (*poll_events)(void* self, std::size_t most, const ModuleEventSink* sink) = nullptr;
  bool (*add_region)(void* self, LocalKey region, std::span<std::byte> bytes,
                     const ModuleErrorSink* sink) = nullptr;
  bool (*add_device_region)(void* self, LocalKey region, std::span<std::byte> bytes, int dmabuf_fd,
                            const ModuleErrorSink* sink) = nullptr;
  void (*remove_region)(void* self, LocalKey region) = nullptr;
  void (*offer)(void* self, FabricPeer peer, const Sge* piece, RemoteSpan* out) = nullptr;
  std::size_t (*post)(void* self, const FabricOp* ops, std::size_t count) = nullptr;
  std::size_t (*poll)(void* self, FabricCompletion* out, std::size_t count) = nullptr;
  void (*release)(void* self, const FabricCompletion* message) = nullptr;
  void (*last_error)(const void* self, FabricPeer peer, const ModuleTextSink* sink) = nullptr;
  void (*set_status)(void* self, FabricPeer peer, const FabricStatus* status) = nullptr;
  void (*status)(const void* self, FabricPeer peer, FabricStatus* out) = nullptr;
  std::size_t (*wait_fds)(const void* self, int* out, std::size_t capacity) = nullptr;
  bool (*arm)(void* self) = nullptr;
  void (*counters)(const void* self,
                   void (*write)(void* to, const char* name, std::size_t bytes,
                                 std::uint64_t value),
                   void* to) = nullptr;
};

// A module moves packets (`open`), is a reliable medium (`open_fabric`), or both.
struct ProviderModule {
  std::size_t struct_size = sizeof(ProviderModule);
  std::uint32_t version = kProviderModuleVersion;
  std::uint32_t rx_packet_bytes = sizeof(RxPacket);
  std::uint32_t tx_packet_bytes = sizeof(TxPacket);
  std::uint32_t io_error_bytes = sizeof(IoError);
  std::uint32_t packet_io_bytes = sizeof(ModulePacketIo);
  std::uint32_t caps_bytes = sizeof(ModuleCaps);
  std::uint32_t fabric_op_bytes = sizeof(FabricOp);
  std::uint32_t fabric_completion_bytes = sizeof(FabricCompletion);
  std::uint32_t fabric_bytes = sizeof(ModuleMessageFabric);
  std::uint32_t fabric_caps_bytes = sizeof(ModuleFabricCaps);
  const char* library_version = nullptr;  // kVersion, ended by zero
  const char* name = nullptr;             // the scheme
  // Whether this host can use it; says why not.
  bool (*probe)(const ModuleErrorSink* sink) = nullptr;
  // For people: the devices that `url` names, or all that it could ("verbs://"). May be missing.
  bool (*describe)(std::string_view url, const ModuleFactSink* facts,
                   const ModuleErrorSink* sink) = nullptr;
  // `url` is what the user wrote, "dpdk://...". Null after having reported why.
  void* (*open)(const char* url, std::size_t bytes, const ModuleErrorSink* sink) = nullptr;
  ModulePacketIo packet_io{};
  void* (*open_fabric)(const char* url, std::size_t bytes, const ModuleErrorSink* sink) = nullptr;
  ModuleMessageFabric fabric{};
};

using ProviderModuleEntry = const ProviderModule* (*)();

}  // namespace spindrift
