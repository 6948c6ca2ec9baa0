#pragma once
// What UDP sockets carry with no protocol above them: the yardstick beside the transport. The same
// kind of sockets and the same packets, in super-packets of up to 64 KiB, nothing looked at and
// nothing copied out. Flow control is a counter in memory.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spindrift::bench {

class PlainSockets {
 public:
  explicit PlainSockets(std::uint32_t packet_bytes);
  ~PlainSockets();
  PlainSockets(const PlainSockets&) = delete;
  PlainSockets& operator=(const PlainSockets&) = delete;

  bool is_open() const { return is_open_; }
  // Sends that many packets and waits until they have arrived; false when they did not.
  bool stream(std::uint64_t packets);
  // The receiving thread's turn of stream(); never blocks.
  void receive_some();
  // 8 bytes there and back, polled.
  bool ping() const;
  void answer_some() const;

 private:
  bool send_super_packet(std::uint64_t packets);
  bool wait_for(std::uint64_t bytes) const;

  std::uint32_t packet_bytes_;
  std::uint64_t packets_per_super_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  int near_ = -1;
  int far_ = -1;
  bool is_open_ = false;
  std::uint64_t sent_bytes_ = 0;
  std::atomic<std::uint64_t> arrived_bytes_ = 0;
};

}  // namespace spindrift::bench
