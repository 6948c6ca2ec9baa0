// The table of tunables: the one place where names, units, bounds and meanings stand.
#include <algorithm>
#include <array>
#include <concepts>

#include "spindrift/tunables.h"

namespace spindrift {
namespace {

constexpr std::uint64_t kMicrosecond = 1000;
constexpr std::uint64_t kMillisecond = 1000 * kMicrosecond;
constexpr std::uint64_t kSecond = 1000 * kMillisecond;
constexpr std::uint64_t kHour = 3600 * kSecond;
constexpr std::uint64_t kAnyTime = INT64_MAX;
constexpr std::uint64_t kAnyNumber = UINT64_MAX;
constexpr std::string_view kCrcChoices[] = {"auto", "on", "off"};
constexpr std::string_view kSingleCopyNames[] = {"auto", "on", "off"};

std::uint64_t to_number(std::integral auto value) {
  return static_cast<std::uint64_t>(value);
}
std::uint64_t to_number(CrcChoice value) {
  return static_cast<std::uint64_t>(value);
}
std::uint64_t to_number(SingleCopy value) {
  return static_cast<std::uint64_t>(value);
}
std::uint64_t to_number(Duration value) {
  return static_cast<std::uint64_t>(value.count());
}
std::uint64_t to_number(Rate value) {
  return value.bits_per_second();
}

template <class T>
TunableValue read(const T& field) {
  return {.number = to_number(field)};
}
TunableValue read(const std::string& field) {
  return {.text = field};
}
TunableValue read(const std::vector<std::string>& field) {
  TunableValue out;
  for (const std::string& part : field)
    out.text += (out.text.empty() ? "" : ",") + part;
  return out;
}

template <class T>
void write(T& field, const TunableValue& value) {
  field = static_cast<T>(value.number);
}
void write(Duration& field, const TunableValue& value) {
  field = Duration(static_cast<std::int64_t>(value.number));
}
void write(Rate& field, const TunableValue& value) {
  field = Rate::bits_per_second(value.number);
}
void write(std::string& field, const TunableValue& value) {
  field = value.text;
}
void write(std::vector<std::string>& field, const TunableValue& value) {
  field.clear();
  for (std::size_t at = 0; at < value.text.size();) {
    const std::size_t end = std::min(value.text.find(',', at), value.text.size());
    if (end > at) field.push_back(value.text.substr(at, end - at));
    at = end + 1;
  }
}

// A tunable of the field `member` of the part `part` of the settings.
template <auto part, auto member>
constexpr Tunable field(Tunable described) {
  described.get = [](const Settings& settings) { return read(settings.*part.*member); };
  described.set = [](Settings& settings, const TunableValue& value) {
    write(settings.*part.*member, value);
  };
  return described;
}
template <auto member>
constexpr Tunable endpoint(Tunable described) {
  described.scope = TunableScope::kEndpoint;
  return field<&Settings::endpoint, member>(described);
}
template <auto member>
constexpr Tunable connect(Tunable described) {
  described.scope = TunableScope::kConnect;
  return field<&Settings::connect, member>(described);
}
template <auto member>
constexpr Tunable listen(Tunable described) {
  described.scope = TunableScope::kListen;
  return field<&Settings::listen, member>(described);
}
template <auto member>
constexpr Tunable udp(Tunable described) {
  described.scope = TunableScope::kUdp;
  return field<&Settings::udp, member>(described);
}
template <auto member>
constexpr Tunable shm(Tunable described) {
  described.scope = TunableScope::kShm;
  return field<&Settings::shm, member>(described);
}
constexpr Tunable environment(std::string_view name, std::string_view help) {
  return {
      .name = name, .scope = TunableScope::kEnvironment, .type = TunableType::kText, .help = help};
}

using E = EndpointConfig;
using C = ConnectOptions;
using T = TunableType;

constexpr Tunable kTunables[] = {
    endpoint<&E::max_connections>({.name = "max_connections",
                                   .unit = "connections",
                                   .lowest = 1,
                                   .highest = 65535,
                                   .help = "connections an endpoint may have"}),
    endpoint<&E::max_regions>({.name = "max_regions",
                               .unit = "regions",
                               .lowest = 1,
                               .highest = 1048576,
                               .help = "memory regions that may be registered at a time"}),
    endpoint<&E::completion_queue>({.name = "completion_queue",
                                    .unit = "completions",
                                    .lowest = 2,
                                    .highest = 4194304,
                                    .help = "completions that may wait to be polled"}),
    endpoint<&E::send_queue>({.name = "send_queue",
                              .unit = "requests",
                              .lowest = 1,
                              .highest = 32768,
                              .help = "work requests outstanding per connection"}),
    endpoint<&E::receive_queue>({.name = "receive_queue",
                                 .unit = "receives",
                                 .lowest = 0,
                                 .highest = 32768,
                                 .help = "posted RECEIVEs per connection"}),
    endpoint<&E::window_packets>({.name = "window_packets",
                                  .unit = "packets",
                                  .lowest = 128,
                                  .highest = 32640,
                                  .multiple_of = 128,
                                  .help = "packets in flight per connection"}),
    endpoint<&E::inline_buffers>({.name = "inline_buffers",
                                  .unit = "operations",
                                  .lowest = 0,
                                  .highest = 1048576,
                                  .help = "inline operations outstanding per endpoint"}),
    endpoint<&E::max_reads>({.name = "max_reads",
                             .unit = "operations",
                             .lowest = 1,
                             .highest = 1024,
                             .help = "READs and atomics that a peer may have outstanding"}),
    endpoint<&E::turn_packets>({.name = "turn_packets",
                                .unit = "packets",
                                .lowest = 1,
                                .highest = 65536,
                                .help = "packets that one turn of the loop takes in, and sends, "
                                        "at most"}),
    endpoint<&E::half_open_before_cookie>(
        {.name = "half_open_before_cookie",
         .unit = "connections",
         .lowest = 0,
         .highest = 65535,
         .help = "connections being opened before strangers must return a cookie"}),
    endpoint<&E::has_guardian>({.name = "has_guardian",
                                .type = T::kFlag,
                                .highest = 1,
                                .help = "a thread keeps the transport alive while the caller "
                                        "computes"}),
    endpoint<&E::guardian_takeover>({.name = "guardian_takeover",
                                     .type = T::kDuration,
                                     .unit = "time",
                                     .lowest = 10 * kMicrosecond,
                                     .highest = 10 * kSecond,
                                     .help = "idleness of the caller after which the guardian "
                                             "steps in"}),
    endpoint<&E::partition_key>({.name = "partition_key",
                                 .highest = UINT32_MAX,
                                 .help = "peers with another key are refused"}),
    endpoint<&E::seed>({.name = "seed",
                        .highest = kAnyNumber,
                        .help = "of all randomness, so that runs repeat; 0: from the kernel"}),
    endpoint<&E::host_id>({.name = "host_id",
                           .type = T::kText,
                           .help = "names the host, equal for processes that share it; empty: by "
                                   "boot and machine id"}),
    endpoint<&E::trace_events>(
        {.name = "trace_events",
         .unit = "events",
         .highest = 4194304,
         .help = "events the flight recorder keeps, 32 bytes each; 0: none"}),
    endpoint<&E::trace_level>({.name = "trace_level",
                               .highest = 3,
                               .help = "0 nothing, 1 changes, 2 also losses, 3 also every packet"}),
    endpoint<&E::trace>({.name = "trace",
                         .type = T::kText,
                         .help = "file the flight recorder is appended to when a connection fails "
                                 "and at the end"}),
    endpoint<&E::cc_record>({.name = "cc_record",
                             .type = T::kText,
                             .help = "file that what congestion control hears and decides is "
                                     "appended to, for 'spindrift sim --replay'"}),

    connect<&C::congestion_control>({.name = "congestion_control",
                                     .type = T::kText,
                                     .help = "algorithm, with parameters: dcqcn:g=0.004"}),
    connect<&C::path_selector>(
        {.name = "path_selector", .type = T::kText, .help = "how packets choose a path"}),
    connect<&C::loss_rule>(
        {.name = "loss_rule", .type = T::kText, .help = "when a packet counts as lost"}),
    connect<&C::path_count>({.name = "path_count",
                             .unit = "paths",
                             .lowest = 1,
                             .highest = kMaxPaths,
                             .help = "paths (entropy values) per connection"}),
    connect<&C::burst_bytes>({.name = "burst_bytes",
                              .type = T::kBytes,
                              .unit = "bytes",
                              .highest = 1048576,
                              .help = "sent on one path before the next; 0: one packet"}),
    connect<&C::chunk_bytes>({.name = "chunk_bytes",
                              .type = T::kBytes,
                              .unit = "bytes",
                              .lowest = 16384,
                              .highest = 262144,
                              .help = "one read of the peer's memory, on media that can; each "
                                      "takes a lane of its own"}),
    connect<&C::lane_bytes>({.name = "lane_bytes",
                             .type = T::kBytes,
                             .unit = "bytes",
                             .lowest = 16384,
                             .highest = 16777216,
                             .help = "reads posted to one lane at a time; more would wait in the "
                                     "device and look like a slow network"}),
    connect<&C::max_payload_mtu>(
        {.name = "max_payload_mtu",
         .type = T::kBytes,
         .unit = "bytes",
         .lowest = 512,
         .highest = 16256,
         .multiple_of = 128,
         .help = "payload per packet; the path and the peer may lower it"}),
    connect<&C::crc>({.name = "crc",
                      .type = T::kChoice,
                      .highest = 2,
                      .choices = kCrcChoices,
                      .help = "CRC-32C per packet; auto: on, unless both ends are on one host"}),
    connect<&C::dscp>({.name = "dscp", .highest = 63, .help = "of data packets"}),
    connect<&C::control_dscp>(
        {.name = "control_dscp", .highest = 63, .help = "of acknowledgements and control packets"}),
    connect<&C::local_addresses>({.name = "local_addresses",
                                  .type = T::kList,
                                  .help = "rails to use; empty: the endpoint's, or by route"}),
    connect<&C::connect_timeout>({.name = "connect_timeout",
                                  .type = T::kDuration,
                                  .unit = "time",
                                  .lowest = kMillisecond,
                                  .highest = kHour,
                                  .help = "until a connection that does not open has failed"}),
    connect<&C::default_timeout>({.name = "default_timeout",
                                  .type = T::kDuration,
                                  .unit = "time",
                                  .highest = kAnyTime,
                                  .help = "deadline of an operation that names none; 0: none"}),
    connect<&C::close_timeout>({.name = "close_timeout",
                                .type = T::kDuration,
                                .unit = "time",
                                .highest = kHour,
                                .help = "for the peer's farewell"}),
    connect<&C::silence_limit>({.name = "silence_limit",
                                .type = T::kDuration,
                                .unit = "time",
                                .lowest = kMillisecond,
                                .highest = kHour,
                                .help = "silence of a peer that progresses on its own until it is "
                                        "gone"}),
    connect<&C::silence_limit_passive>({.name = "silence_limit_passive",
                                        .type = T::kDuration,
                                        .unit = "time",
                                        .lowest = kMillisecond,
                                        .highest = kHour,
                                        .help = "the same for a peer without a guardian"}),
    connect<&C::keepalive>({.name = "keepalive",
                            .type = T::kDuration,
                            .unit = "time",
                            .highest = kHour,
                            .help = "probing interval while idle; 0: never"}),
    connect<&C::rto_min>({.name = "rto_min",
                          .type = T::kDuration,
                          .unit = "time",
                          .lowest = kMicrosecond,
                          .highest = 10 * kSecond,
                          .help = "shortest retransmission timeout"}),
    connect<&C::rto_max>({.name = "rto_max",
                          .type = T::kDuration,
                          .unit = "time",
                          .lowest = kMicrosecond,
                          .highest = 60 * kSecond,
                          .help = "longest retransmission timeout, never below rto_min"}),
    connect<&C::base_rtt>({.name = "base_rtt",
                           .type = T::kDuration,
                           .unit = "time",
                           .highest = 60 * kSecond,
                           .help = "round trip of an empty network; 0: measured"}),
    connect<&C::link_rate>({.name = "link_rate",
                            .type = T::kRate,
                            .unit = "bit/s",
                            .highest = kAnyNumber,
                            .help = "of this host; 0: the provider's, else 100G"}),

    listen<&ListenOptions::backlog>({.name = "backlog",
                                     .unit = "requests",
                                     .lowest = 1,
                                     .highest = 65535,
                                     .help = "connection requests that may wait for accept"}),

    udp<&UdpOptions::has_gso>({.name = "udp_gso",
                               .type = T::kFlag,
                               .highest = 1,
                               .help = "super-packets out, where the kernel agrees"}),
    udp<&UdpOptions::has_gro>({.name = "udp_gro",
                               .type = T::kFlag,
                               .highest = 1,
                               .help = "super-packets in, where the kernel agrees"}),
    udp<&UdpOptions::receive_buffer_bytes>({.name = "udp_rcvbuf",
                                            .type = T::kBytes,
                                            .unit = "bytes",
                                            .lowest = 65536,
                                            .highest = 512ULL << 20U,
                                            .help = "payload that should fit in a receive socket"}),
    udp<&UdpOptions::send_buffer_bytes>({.name = "udp_sndbuf",
                                         .type = T::kBytes,
                                         .unit = "bytes",
                                         .lowest = 65536,
                                         .highest = 512ULL << 20U,
                                         .help = "payload that should fit in a send socket, per "
                                                 "entropy value"}),

    shm<&ShmOptions::single_copy>(
        {.name = "shm_single_copy",
         .type = T::kChoice,
         .highest = 2,
         .choices = kSingleCopyNames,
         .help = "large messages are copied once, by reading the peer's memory: while that is "
                 "measured to be faster than the rings and where the kernel allows it, always "
                 "(else connections are refused), or never"}),
    shm<&ShmOptions::single_copy_bytes>({.name = "shm_single_copy_bytes",
                                         .type = T::kBytes,
                                         .unit = "bytes",
                                         .lowest = 256,
                                         .highest = 1ULL << 31U,
                                         .help = "length from which messages are copied once"}),
    shm<&ShmOptions::ring_bytes>({.name = "shm_ring_bytes",
                                  .type = T::kBytes,
                                  .unit = "bytes",
                                  .lowest = 65536,
                                  .highest = 64ULL << 20U,
                                  .multiple_of = 4096,
                                  .help = "payload under way through the memory that two "
                                          "processes share, per connection and direction"}),

    environment("config",
                "file to read instead of /etc/spindrift.conf and "
                "~/.config/spindrift.conf; empty: none"),
    environment("plugins", "shared objects to load, separated by colons"),
    environment("modules", "folders of providers in shared objects, separated by colons"),
    environment("rendezvous", "where the ranks of a job meet: host:port, or file:///shared/file"),
    environment("launcher", "none: who started this process is not asked for its rank"),
    environment("address", "where a rank of PyTorch listens: udp://10.0.0.7:0, or shm://"),
    environment("algo", "algorithms of collectives: ring, or all_reduce:ring;broadcast:tree"),
    environment("provider", "udp, shm ...: the one provider that a group of ranks may use"),
    environment("conf", "NCCL plugin: the same as SPINDRIFT_CONFIG"),
    environment("nccl_ifname", "NCCL plugin: interfaces to use, as NCCL_SOCKET_IFNAME writes them"),
    environment("nccl_rails",
                "NCCL plugin: devices by address, separated by spaces: ofi://net@10.0.0.1"),
    environment("nccl_rdma", "NCCL plugin: 0: UDP also where there are RDMA devices"),
    environment("nccl_shm", "NCCL plugin: 0: no shared memory between processes of one host"),
    environment("nccl_threads", "NCCL plugin: threads that poll all the time, 0..64 (0)"),
    environment("nccl_ll128", "NCCL plugin: 0: its tuner takes LL128 away"),
    environment("nccl_fault", "NCCL plugin: faults on purpose: loss=2%"),
    environment("tuning", "file with the measured costs of collectives"),
    environment("jobs", "compilers that ./dev runs at a time"),
    environment("no_setup", "1: ./dev installs nothing"),
};

}  // namespace

std::span<const Tunable> tunables() {
  return kTunables;
}

const Tunable* find_tunable(std::string_view name) {
  for (const Tunable& tunable : kTunables)
    if (tunable.name == name) return &tunable;
  return nullptr;
}

}  // namespace spindrift
