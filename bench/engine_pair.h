#pragma once
// Two packet engines joined directly in memory: no sockets, no clock, no provider. What is measured
// with it is the engine alone, and, where asked for, the copy that a socket would make.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/config.h"

#include "transport/packet_engine.h"

namespace spindrift::bench {

struct EnginePairOptions {
  ConnectOptions connection{};
  std::uint32_t batch_packets = 8;  // per call of the engines, 1..kMaxBatch
  std::uint32_t turn_packets = 64;  // that leave before the other side has its turn
  // False: the payload of data packets is not carried from sender to receiver. All of it must be
  // zero then, so that checksums still hold.
  bool carries_payload = true;
};

// Packets under way in one direction, oldest first.
class DirectLink {
 public:
  DirectLink();
  bool is_empty() const { return count_ == 0; }
  bool has_room(std::size_t packets) const { return count_ + packets <= kPackets; }
  // Never inlined, so that a profile tells it from the engines.
  [[gnu::noinline]] void carry(std::span<const TxPacket> burst, const NetAddress& source);
  std::span<const RxPacket> packets() const { return {packets_.data(), count_}; }
  void clear() { count_ = 0; }
  // From now on the payload of data packets, all of it zero, stays where it is.
  void stop_carrying_payload();

 private:
  static constexpr std::size_t kPackets = 512;
  static constexpr std::size_t kPacketBytes = 16640;
  static constexpr std::size_t kControlBytes = 256;

  bool carries_payload_ = true;
  std::vector<std::byte> data_;
  std::vector<std::byte> control_;
  std::vector<RxPacket> packets_;
  std::size_t count_ = 0;
};

class DirectHost final : public RailDirectory {
 public:
  static constexpr std::size_t kMaxBatch = 64;

  DirectHost(std::uint8_t number, const EnginePairOptions& options);
  PacketEngine& engine() { return engine_; }
  EngineContext& context() { return engine_.context(); }
  const NetAddress& address() const { return address_; }
  void receive(DirectLink& from, Time now);
  void transmit(DirectLink& to, Time now);

 private:
  std::span<const NetAddress> rails() const override { return {&address_, 1}; }
  const PacketIoCaps& caps() const override { return caps_; }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override;
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override;

  NetAddress address_{};
  PacketIoCaps caps_{};
  EnginePairOptions options_;
  std::array<std::array<std::byte, kMaxHeaderBytes>, kMaxBatch> headers_{};
  std::array<TxPacket, kMaxBatch> tx_{};
  PacketEngine engine_;
};

class EnginePair {
 public:
  explicit EnginePair(const EnginePairOptions& options);
  bool open();
  // One turn of a, then one of b; a fixed time passes.
  void step();
  bool post(const WorkRequest& work);
  // All completions that wait at `a`; false when one of them is an error.
  bool take_completions(std::uint64_t& count);

  Connection& at_a() { return *at_a_; }
  Connection& at_b() { return *at_b_; }
  DirectHost& a() { return a_; }
  DirectHost& b() { return b_; }

 private:
  EnginePairOptions options_;
  Time now_{std::chrono::seconds(1)};
  DirectLink to_a_;
  DirectLink to_b_;
  DirectHost a_;
  DirectHost b_;
  Connection* at_a_ = nullptr;
  Connection* at_b_ = nullptr;
};

}  // namespace spindrift::bench
