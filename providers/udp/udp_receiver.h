#pragma once
// The receive path: super-packets (GRO) into large buffers, handed out as single packets. Internal
// to providers/udp.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "spindrift/provider.h"

#include "providers/udp/udp_socket.h"
#include "transport/base/pages.h"
#include "transport/base/ring.h"

namespace spindrift {

class UdpReceiver {
 public:
  UdpReceiver();
  std::size_t receive(std::span<const UdpRail> rails, std::span<RxPacket> out);
  // What came in on a send socket: hosts that know no better address answer there.
  void take_answers(int fd, std::uint16_t rail) { take_in(fd, rail, kMaxMessages); }
  void release(std::span<const RxPacket> packets);
  void counters(CounterWriter& out) const;

 private:
  static constexpr std::size_t kBuffers = 128;
  // The largest datagram, super-packet or not.
  static constexpr std::size_t kBufferBytes = 65536;
  static constexpr std::size_t kMaxMessages = 32;  // per system call

  // A datagram or super-packet of which packets remain to be handed out.
  struct Message {
    NetAddress source{};
    Time arrival{};
    std::uint32_t buffer = 0;
    std::uint32_t bytes = 0;
    std::uint32_t taken_bytes = 0;
    std::uint32_t segment_bytes = 0;
    std::uint16_t rail = 0;
    std::uint8_t traffic_class = 0;
  };
  struct alignas(cmsghdr) Control {
    std::array<char, 128> bytes{};
  };

  std::size_t hand_out(std::span<RxPacket> out);
  // Whether the socket may hold more.
  bool take_in(int fd, std::uint16_t rail, std::size_t wanted_packets);
  std::size_t prepare(std::size_t wanted);
  std::size_t accept(std::size_t slot, std::uint16_t rail, Time arrival);
  std::byte* buffer(std::uint32_t index) { return memory_.data() + index * kBufferBytes; }
  void drop_reference(std::uint32_t buffer);

  Pages memory_;
  std::vector<std::uint32_t> free_;  // last released first: its memory is in the cache
  std::array<std::uint32_t, kBuffers> references_{};
  Ring<Message> waiting_;
  std::size_t next_rail_ = 0;
  std::size_t packets_per_message_ = 1;  // of the last system call
  std::size_t expected_messages_ = 1;    // in the next one

  std::array<mmsghdr, kMaxMessages> headers_{};
  std::array<iovec, kMaxMessages> pieces_{};
  std::array<SocketAddress, kMaxMessages> sources_{};
  std::array<Control, kMaxMessages> controls_{};
  std::array<std::uint32_t, kMaxMessages> slot_buffers_{};
  std::uint32_t prepared_ = 0;  // bit per slot: it has a buffer and its header is made
  static_assert(kMaxMessages <= 32);

  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t truncated_ = 0;
  std::uint64_t errors_ = 0;
};

}  // namespace spindrift
