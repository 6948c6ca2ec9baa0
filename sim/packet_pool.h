#pragma once
// Packets under way, by index. What switches look at is one cache line; the bytes that endpoints
// read lie apart.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spindrift/provider.h"

#include "sim/telemetry.h"
#include "sim/time.h"
#include "transport/base/check.h"

namespace spindrift::sim {

using PacketId = std::uint32_t;
inline constexpr PacketId kNoPacket = 0xffffffff;

// In the order in which a port serves them.
enum class TrafficClass : std::uint8_t { kPause, kControl, kTrimmed, kData };
inline constexpr std::size_t kTrafficClasses = 4;

struct Packet {
  Picoseconds arrival = 0;    // of the last bit at the far end of the link it is on
  PacketId next = kNoPacket;  // in the queue or on the link it is in
  std::uint32_t wire_bytes = 0;
  std::uint32_t udp_bytes = 0;    // the UDP payload
  std::uint32_t source = 0;       // NIC
  std::uint32_t destination = 0;  // NIC
  std::uint32_t edge = 0;         // switch that the destination hangs on
  std::uint32_t tuple_hash = 0;   // over the 5-tuple
  std::uint32_t ingress = 0;      // port whose link brought it into the switch it is in
  std::uint16_t entropy = 0;
  std::uint16_t kept_bytes = 0;  // of the UDP payload, those that bytes() has
  TrafficClass traffic = TrafficClass::kData;
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t dscp = 0;
  bool is_trimmed = false;
  bool is_trimmed_last_hop = false;
  bool is_lane = false;   // of a LaneFabric: a queue pair knows no packets without their payload
  bool pauses = false;    // kPause: stop, or go on
  bool is_lost = false;   // it left into a link that was down
  bool is_whole = false;  // all its bytes are kept, see PacketPool::keep_whole()
};
static_assert(sizeof(Packet) <= 64, "one cache line");

class PacketPool {
 public:
  // The first `kept_bytes` of each packet are stored. A span of up to max_bytes from bytes() on is
  // readable.
  PacketPool(std::uint32_t kept_bytes, std::uint32_t max_bytes, bool has_telemetry = false)
      : kept_bytes_(kept_bytes),
        max_bytes_(max_bytes),
        has_telemetry_(has_telemetry),
        chunk_bytes_(std::size_t{kept_bytes} * kChunk + max_bytes) {}

  // References to other packets do not survive this.
  PacketId take() {
    if (free_ == kNoPacket) [[unlikely]]
      grow();
    const PacketId id = free_;
    free_ = packets_[id].next;
    packets_[id] = Packet{};
    ++in_use_;
    return id;
  }
  void give_back(PacketId id) {
    packets_[id].next = free_;
    free_ = id;
    --in_use_;
  }
  Packet& operator[](PacketId id) { return packets_[id]; }
  const Packet& operator[](PacketId id) const { return packets_[id]; }
  std::byte* bytes(PacketId id) {
    if (packets_[id].is_whole) [[unlikely]]
      return whole_[id].get();
    return chunks_[id / kChunk].get() + std::size_t{id % kChunk} * kept_bytes_;
  }
  // Only where the pool has telemetry; of an earlier packet until it is set.
  TelemetryStack& telemetry(PacketId id) { return telemetry_[id / kChunk][id % kChunk]; }
  // Makes room for all bytes of this packet.
  void keep_whole(PacketId id) {
    if (kept_bytes_ == max_bytes_) return;
    if (whole_.size() <= id) whole_.resize(packets_.size());
    if (!whole_[id]) whole_[id] = std::make_unique<std::byte[]>(max_bytes_);
    packets_[id].is_whole = true;
  }
  // No packet may be whole.
  void forget_whole() { whole_.clear(); }
  std::uint64_t in_use() const { return in_use_; }

 private:
  static constexpr std::uint32_t kChunk = 1024;
  void grow() {
    const auto first = static_cast<PacketId>(packets_.size());
    packets_.resize(packets_.size() + kChunk);
    chunks_.push_back(std::make_unique<std::byte[]>(chunk_bytes_));
    if (has_telemetry_) telemetry_.push_back(std::make_unique<TelemetryStack[]>(kChunk));
    for (PacketId id = first + kChunk; id != first; --id) {
      packets_[id - 1].next = free_;
      free_ = id - 1;
    }
  }

  std::uint32_t kept_bytes_;
  std::uint32_t max_bytes_;
  bool has_telemetry_;
  std::size_t chunk_bytes_;
  std::vector<Packet> packets_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<TelemetryStack[]>> telemetry_;
  std::vector<std::unique_ptr<std::byte[]>> whole_;  // by packet; null where never needed
  PacketId free_ = kNoPacket;
  std::uint64_t in_use_ = 0;
};

}  // namespace spindrift::sim
