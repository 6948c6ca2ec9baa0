#pragma once
// Every tunable: unit, default, bounds, meaning. Checked by Endpoint::create and connect, which
// refuse values outside the bounds with a sentence.
#include <cstdint>
#include <string>
#include <vector>

#include "spindrift/types.h"

namespace spindrift {

enum class CrcChoice : std::uint8_t {
  kAuto,  // on, unless both ends are on one host
  kOn,
  kOff,
};

// Per endpoint; fixed at creation. Memory is sized from these.
struct EndpointConfig {
  std::uint32_t max_connections = 1024;    // 1..65535
  std::uint32_t max_regions = 4096;        // registered memory regions, 1..1048576
  std::uint32_t completion_queue = 65536;  // completions that may wait for poll(), 2..4194304
  std::uint32_t send_queue = 512;          // work requests per connection, 1..32768
  std::uint32_t receive_queue = 512;       // posted RECEIVEs per connection, 0..32768
  std::uint32_t window_packets = 2048;     // packets in flight per connection, 128..32640, a
                                           // multiple of 128
  std::uint32_t inline_buffers = 4096;     // inline operations outstanding, 0..1048576
  std::uint32_t max_reads = 64;            // READs and atomics a peer may have outstanding, 1..1024
  std::uint32_t turn_packets = 512;  // packets one progress() takes in and sends at most, 1..65536
  std::uint32_t half_open_before_cookie = 64;  // connections being opened before strangers must
                                               // return a cookie, 0..65535
  bool has_guardian = false;  // a thread that keeps the transport alive while the caller computes
  Duration guardian_takeover = std::chrono::milliseconds(1);  // idle caller before it steps in
  std::uint32_t partition_key = 0;                            // peers with another key are refused
  std::uint64_t seed = 0;  // 0: from getrandom; otherwise runs repeat (tests, simulator)
};

// Per connection; both sides may differ unless stated.
struct ConnectOptions {
  std::string congestion_control = "nscc";
  std::string path_selector = "reps";
  std::uint32_t path_count = 16;      // entropy values (EVs), 1..256
  std::uint32_t burst_bytes = 65536;  // packets sent on one path before the next, 0 (one packet)
                                      // .. 1048576; never more than a quarter of the window
  std::uint32_t max_payload_mtu = 16256;  // payload bytes per packet; multiple of 128 in
                                          // 512..16256; the path and the peer may lower it
  CrcChoice crc = CrcChoice::kAuto;
  std::uint8_t dscp = 0;                       // of data packets, 0..63
  std::uint8_t control_dscp = 46;              // of acknowledgements and control packets, 0..63
  std::vector<std::byte> private_data{};       // up to 192 bytes for the peer's application
  std::vector<std::string> local_addresses{};  // rails to use; empty: the endpoint's, or by route
  SharedQueueId shared_receive_queue{};  // RECEIVEs come from here instead of the connection's own

  Duration connect_timeout = std::chrono::seconds(5);  // 1 ms .. 1 h
  Duration default_timeout{};                          // deadline of an operation; zero: none
  Duration close_timeout = std::chrono::seconds(1);    // for the peer's farewell, 0 .. 1 h
  // Silence while operations wait for the peer. The first towards a peer whose side progresses on
  // its own, the second otherwise. 1 ms .. 1 h.
  Duration silence_limit = std::chrono::seconds(5);
  Duration silence_limit_passive = std::chrono::seconds(60);
  Duration keepalive = std::chrono::seconds(1);       // idle probing interval; zero: never
  Duration rto_min = std::chrono::microseconds(200);  // 1 us .. 10 s
  Duration rto_max = std::chrono::milliseconds(500);  // rto_min .. 60 s
  Duration base_rtt{};                                // zero: measured by the handshake
  Rate link_rate{};                                   // zero: the provider's, else 100 Gb/s
};

struct ListenOptions {
  std::uint32_t backlog = 128;  // connection requests that may wait for accept(), 1..65535
};

}  // namespace spindrift
