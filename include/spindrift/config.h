#pragma once
// Every tunable field and its default. Bounds, units and the names under which files and the
// environment set them stand in one table (tunables.h); Endpoint::create, listen, connect and
// accept refuse values outside the bounds with a sentence.
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
  std::uint32_t max_connections = 1024;
  std::uint32_t max_regions = 4096;            // registered memory regions
  std::uint32_t completion_queue = 65536;      // completions that may wait for poll()
  std::uint32_t send_queue = 512;              // work requests per connection
  std::uint32_t receive_queue = 512;           // posted RECEIVEs per connection
  std::uint32_t window_packets = 2048;         // packets in flight per connection
  std::uint32_t inline_buffers = 4096;         // inline operations outstanding
  std::uint32_t max_reads = 64;                // READs and atomics a peer may have outstanding
  std::uint32_t turn_packets = 512;            // packets one progress() takes in and sends at most
  std::uint32_t half_open_before_cookie = 64;  // connections being opened before strangers must
                                               // return a cookie
  bool has_guardian = false;  // a thread that keeps the transport alive while the caller computes
  Duration guardian_takeover = std::chrono::milliseconds(1);  // idle caller before it steps in
  std::uint32_t partition_key = 0;                            // peers with another key are refused
  std::uint64_t seed = 0;  // 0: from getrandom; otherwise runs repeat (tests, simulator)
  std::string host_id{};   // equal for processes that share a host; empty: SPINDRIFT_HOST_ID, else
                           // this machine's
  std::uint32_t trace_events = 4096;  // the flight recorder keeps the last so many, 32 bytes each;
                                      // rounded up to a power of two; 0: none
  std::uint32_t trace_level = 2;      // 0 nothing, 1 changes, 2 also losses, 3 also every packet
  std::string trace{};                // file that the flight recorder is written to; empty: none
  std::string cc_record{};            // file that what congestion control hears and decides is
                                      // appended to, when a connection is released; empty: none
};

// Per connection; both sides may differ unless stated.
struct ConnectOptions {
  std::string congestion_control = "nscc";
  std::string path_selector = "reps";
  std::string loss_rule = "per_path";  // when a packet counts as lost
  std::uint32_t path_count = 16;       // entropy values (EVs), lanes; a medium may have fewer
  std::uint32_t burst_bytes = 65536;   // packets sent on one path before the next; 0: one packet;
                                       // never more than a quarter of the window
  // Media whose memory the peer reads: bytes of one read, each by a lane of its own choice; and
  // bytes of reads that are posted to one lane at a time (one read may always be).
  std::uint32_t chunk_bytes = 65536;
  std::uint32_t lane_bytes = 262144;
  std::uint32_t max_payload_mtu = 16256;  // payload bytes per packet; the path and the peer may
                                          // lower it
  CrcChoice crc = CrcChoice::kAuto;
  std::uint8_t dscp = 0;                       // of data packets
  std::uint8_t control_dscp = 46;              // of acknowledgements and control packets
  std::vector<std::byte> private_data{};       // up to 192 bytes for the peer's application
  std::vector<std::string> local_addresses{};  // rails to use; empty: the endpoint's, or by route
  SharedQueueId shared_receive_queue{};  // RECEIVEs come from here instead of the connection's own

  Duration connect_timeout = std::chrono::seconds(5);
  Duration default_timeout{};                        // deadline of an operation; zero: none
  Duration close_timeout = std::chrono::seconds(1);  // for the peer's farewell
  // Silence while operations wait for the peer. The first towards a peer whose side progresses on
  // its own, the second otherwise.
  Duration silence_limit = std::chrono::seconds(5);
  Duration silence_limit_passive = std::chrono::seconds(60);
  Duration keepalive = std::chrono::seconds(1);  // idle probing interval; zero: never
  Duration rto_min = std::chrono::microseconds(200);
  Duration rto_max = std::chrono::milliseconds(500);  // never below rto_min
  Duration base_rtt{};                                // zero: measured by the handshake
  Rate link_rate{};                                   // zero: the provider's, else 100 Gb/s
};

struct ListenOptions {
  std::uint32_t backlog = 128;  // connection requests that may wait for accept()
};

// What udp:// addresses may say for themselves: "?gso=0&gro=0&rcvbuf=BYTES&sndbuf=BYTES".
struct UdpOptions {
  bool has_gso = true;  // super-packets out, where the kernel agrees
  bool has_gro = true;  // super-packets in
  // Payload bytes that should fit. The default is half a millisecond of 100 Gb/s, the longest time
  // a running thread is commonly kept from its core.
  std::uint32_t receive_buffer_bytes = 8U << 20U;
  std::uint32_t send_buffer_bytes = 2U << 20U;  // per entropy
};

enum class SingleCopy : std::uint8_t {
  kAuto,  // while it is faster, and where the kernel lets the processes read each other's memory
  kOn,    // always, and a connection is refused where the kernel does not
  kOff,   // everything through the rings
};

// What shm:// addresses may say for themselves: "?single_copy=off&single_copy_bytes=BYTES&
// ring_bytes=BYTES".
struct ShmOptions {
  // Either may be five times as fast as the other, depending on how far apart the two processors
  // are (docs/providers/shm.md).
  SingleCopy single_copy = SingleCopy::kAuto;
  std::uint32_t single_copy_bytes = 16384;  // messages from this length on
  // Payload under way through the rings, per connection and direction: enough to keep both sides
  // copying, small enough to stay in the cache.
  std::uint32_t ring_bytes = 512U << 10U;
};

}  // namespace spindrift
