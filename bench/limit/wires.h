#pragma once
// What the two processes of udp_limit talk over: a TCP connection for the test's description and
// its result (a JSON object per line), and UDP sockets opened as the udp provider opens its own.
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "providers/udp/udp_socket.h"

namespace spindrift::limit {

class Talk {
 public:
  explicit Talk(UniqueFd fd) : fd_(std::move(fd)) {}

  NetAddress local() const;
  NetAddress remote() const;
  [[nodiscard]] Status send(const nlohmann::json& object);
  // Waits until a line is there, ten minutes at most.
  Result<nlohmann::json> receive();
  // Something has come, or the peer is gone; never blocks.
  bool has_news() const;

 private:
  UniqueFd fd_;
  std::string received_;
};

Result<UniqueFd> listen_at(const NetAddress& address);
Result<Talk> accept_from(int listener);
Result<Talk> connect_to(const NetAddress& address);

// One direction's receiving socket, at a port of the kernel's choice.
Result<UniqueFd> open_receiver(const NetAddress& host);
// Bytes that may wait in a receiving socket, whatever the kernel adds to each super-packet.
std::uint64_t receive_room(int fd);
// Sockets with a source port each, joined to `to`. With `segment_bytes` other than zero longer
// datagrams leave as super-packets of such segments.
Result<std::vector<UniqueFd>> open_senders(const NetAddress& host, const NetAddress& to,
                                           std::uint32_t count, std::uint32_t segment_bytes);

double seconds_now();
// User and system time of this process.
double cpu_seconds();
void bind_to_processor(int processor);  // -1: stays unbound

}  // namespace spindrift::limit
