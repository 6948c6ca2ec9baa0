#pragma once
// Copies of packets that a wrapper holds. Internal to providers/wrap.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "spindrift/provider.h"

namespace spindrift {

struct HeldPacket {
  std::vector<std::byte> bytes{};  // grows to what it once held, then is reused
  NetAddress to{};
  std::uint16_t rail = 0;
  std::uint16_t entropy = 0;
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t dscp = 0;
};

class HeldPackets {
 public:
  explicit HeldPackets(std::size_t slots) : slots_(slots) {
    free_.reserve(slots);
    for (std::size_t i = slots; i > 0; --i)
      free_.push_back(static_cast<std::uint32_t>(i - 1));
  }

  std::size_t free_slots() const { return free_.size(); }
  HeldPacket& operator[](std::uint32_t slot) { return slots_[slot]; }
  void free(std::uint32_t slot) { free_.push_back(slot); }

  // There must be a free slot.
  std::uint32_t copy(const TxPacket& packet) {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    HeldPacket& held = slots_[slot];
    held.bytes.clear();
    append(held, packet.header);
    for (std::size_t i = 0; i < packet.payload_pieces; ++i)
      append(held, packet.payload[i]);
    append(held, std::span(packet.trailer).first(packet.trailer_bytes));
    held.to = *packet.to;
    held.rail = packet.rail;
    held.entropy = packet.entropy;
    held.ecn = packet.ecn;
    held.dscp = packet.dscp;
    return slot;
  }

  // The slot's bytes must stay until the packet was released.
  void fill(TxPacket& packet, std::uint32_t slot) const {
    const HeldPacket& held = slots_[slot];
    packet.header = packet.header.first(0);
    packet.payload[0] = held.bytes;
    packet.payload_pieces = 1;
    packet.trailer_bytes = 0;
    packet.to = &held.to;
    packet.rail = held.rail;
    packet.entropy = held.entropy;
    packet.ecn = held.ecn;
    packet.dscp = held.dscp;
  }

 private:
  static void append(HeldPacket& held, std::span<const std::byte> bytes) {
    held.bytes.insert(held.bytes.end(), bytes.begin(), bytes.end());
  }

  std::vector<HeldPacket> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace spindrift
