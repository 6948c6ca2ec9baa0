#pragma once
// The send path: equal packets of one path leave as super-packets (GSO), several per system call.
// What the kernel does not take at once waits here. Internal to providers/udp.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "spindrift/provider.h"

#include "providers/udp/udp_socket.h"

namespace spindrift {

class UdpSender {
 public:
  // The kernel's limit since super-packets exist (later kernels take more).
  static constexpr std::size_t kMaxSegments = 64;
  // An IP packet's length field, less the longest headers.
  static constexpr std::size_t kMaxSuperPacketBytes = 65535 - 48;

  UdpSender();
  std::size_t reserve(std::span<UdpRail> rails, std::span<TxPacket> out);
  void send(std::span<UdpRail> rails, std::span<const TxPacket> packets);
  // Tries to hand what waits to the kernel.
  void flush(std::span<UdpRail> rails);
  bool has_unsent() const { return next_ < count_; }
  std::uint64_t released() const { return released_; }
  // True once after each send that failed: the sockets' error queues may say why.
  bool take_has_failed();
  void counters(CounterWriter& out) const;

 private:
  static constexpr std::size_t kMaxPackets = 256;
  static constexpr std::size_t kMaxMessages = 64;  // per system call
  static constexpr std::size_t kPiecesPerPacket = kMaxPieces + 2;

  struct Packet {
    SocketAddress to{};
    std::uint32_t bytes = 0;
    std::uint32_t first_piece = 0;
    std::uint32_t pieces = 0;
    std::uint16_t rail = 0;
    std::uint16_t entropy = 0;
    std::uint8_t traffic_class = 0;
    bool is_same_path = false;  // as the packet before
    std::array<std::byte, 4> trailer{};
  };
  struct alignas(cmsghdr) Control {
    std::array<char, 64> bytes{};
  };

  void add(const TxPacket& packet, const TxPacket* previous);
  void add_piece(Packet& packet, const void* bytes, std::size_t size);
  std::size_t group_at(std::size_t first, bool has_gso) const;
  void fill_message(std::size_t slot, std::size_t first, std::size_t packets);
  // Each of the two returns false when the kernel takes no more now.
  int send_messages(int fd, std::size_t slots);
  bool send_some(std::span<UdpRail> rails);
  bool on_error(UdpRail& rail, int error);
  bool send_first_alone(UdpRail& rail);
  void lose(std::size_t packets);
  void advance(std::size_t packets);

  std::vector<std::byte> headers_;
  std::size_t reserved_ = 0;
  std::vector<Packet> packets_;
  std::vector<iovec> pieces_;
  std::size_t piece_count_ = 0;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::uint64_t released_ = 0;
  bool is_second_try_ = false;
  bool has_failed_ = false;

  std::array<mmsghdr, kMaxMessages> messages_{};
  std::array<Control, kMaxMessages> controls_{};
  std::array<std::size_t, kMaxMessages> message_packets_{};

  std::uint64_t tx_packets_ = 0;
  std::uint64_t tx_bytes_ = 0;
  std::uint64_t tx_messages_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t would_block_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t lost_packets_ = 0;
  std::uint64_t gso_refused_ = 0;
};

}  // namespace spindrift
