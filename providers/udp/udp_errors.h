#pragma once
// What the network said about packets sent: the error queues of all send sockets, and answers that
// came to them instead of the receive port. Internal to providers/udp.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/provider.h"

#include "providers/udp/udp_socket.h"

namespace spindrift {

class UdpErrors {
 public:
  Status open();
  Status watch(int fd, std::uint16_t rail, std::uint16_t entropy);
  std::size_t poll(std::span<const UdpRail> rails, std::span<IoError> out);
  // Send sockets on which poll() saw datagrams.
  struct Readable {
    std::uint16_t rail = 0;
    std::uint16_t entropy = 0;
  };
  std::vector<Readable>& readable() { return readable_; }
  // Readable while an error queue holds something.
  int wait_fd() const { return epoll_.get(); }
  void counters(CounterWriter& out) const;

 private:
  bool read_one(int fd, IoError& out, bool& has_error);

  UniqueFd epoll_;
  std::vector<Readable> readable_;
  std::uint64_t reported_ = 0;
  std::uint64_t ignored_ = 0;
};

}  // namespace spindrift
