#include "tools/perf/arguments.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "plugins/provider_modules.h"
#include "tools/perf/units.h"
#include "tools/usage.h"

namespace spindrift::perf {
namespace {

constexpr const char* kFooter = R"(
EXAMPLES
  spindrift perf server                        on one host, and on the other:
  spindrift perf 10.0.0.1 --op write --all     bandwidth of WRITEs of 2 B to 8 MiB
  spindrift perf local --op send --test lat    both sides on this host
  spindrift perf local --fault loss=1% --verify --op read

RESULTS
  MB are 2^20 bytes. Latency of send, write and write-imm is half a round trip (ping-pong); of read
  and atomic it is the time from post to completion. Both directions of --bidirectional add up.
  What no option says comes from the settings ('spindrift info --tunables').
  --json prints one document: "parameters", "connection", "bandwidth" and "latency" (one row per
  size: bytes, iterations, and average_mb_per_s, peak_mb_per_s, message_rate_mpps, or min_us,
  max_us, typical_us, average_us, stdev_us, p99_us, p999_us), "account" ("client" and "server":
  "counters", "state", "paths"), "is_interrupted", "misses" (limits not met), "error" (if any).

EXIT CODES
  0 done; 1 a limit missed, verification failed, or the network, the peer or this host failed;
  2 wrong arguments; 130 interrupted, with partial results)";

constexpr std::int64_t kMaxCount = (1LL << 31) - 1;
// More does not warm anything up.
constexpr std::uint64_t kWarmupBytes = 256ULL << 20;

bool is_limit(double value) {
  return std::isfinite(value) && value >= 0;
}

Error usage(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

void declare_test(CLI::App& app, PerfArguments* a) {
  const char* group = "Test (chosen by the client)";
  app.add_option("--op", a->operation, "write (default), write-imm, send, read or atomic")
      ->group(group);
  app.add_option("--test", a->test, "bw (default), lat or both")->group(group);
  app.add_option("-s,--size", a->size,
                 "bytes per message, 0..2G; K, M and G are powers of 1024 "
                 "(64K for bandwidth, 8 for latency)")
      ->group(group);
  app.add_flag("-a,--all", a->has_all_sizes, "all sizes of 2 B .. 8 MiB, powers of two")
      ->group(group);
  app.add_flag("-b,--bidirectional", a->is_bidirectional, "bandwidth of both directions at once")
      ->group(group);
  app.add_option("--depth", a->depth,
                 "messages in flight per connection, 1..1024 (16..128 by size)")
      ->group(group);
  app.add_option("--post-batch", a->post_batch, "messages handed over at once, 1..32 (32)")
      ->check(CLI::Range(1, 32))
      ->group(group);
  app.add_option("--connections", a->connections, "1..256 (1); latency uses the first")
      ->group(group);
  app.add_option("-D,--duration", a->duration,
                 "of each measurement; seconds, or 500ms, 2m (2 s; 500 ms with --all)")
      ->group(group);
  app.add_option("-n,--iterations", a->iterations,
                 "messages per connection, instead of a duration (latency: 1000)")
      ->group(group);
  app.add_option("--warmup", a->warmup, "messages per connection before measuring (by size)")
      ->group(group);
  app.add_flag("--verify", a->has_verify,
               "check the contents of every message; bandwidth then includes the checking")
      ->group(group);
  app.add_option("--min-bw", a->min_mb_per_s,
                 "MB/s that the best size must reach on average, else exit code 1")
      ->group(group);
  app.add_option("--max-lat", a->max_latency_us,
                 "usec that the average of the best size may take, else exit code 1")
      ->group(group);
  app.add_flag("--json", a->has_json, "one JSON document instead of tables")->group(group);
}

void declare_transport(CLI::App& app, PerfArguments* a) {
  const char* group = "Transport";
  app.add_option(
         "--cc", a->congestion_control,
         "congestion control, with parameters: nscc, dcqcn:g=0.004 ('spindrift info' lists), or a "
         "plug-in's file: ./libfoo.so:g=0.1")
      ->group(group);
  app.add_option("--path-selector,--path-policy", a->path_selector,
                 "reps, round_robin, single ..., or a plug-in's file: ./libfoo.so")
      ->group(group);
  app.add_option("--loss", a->loss_rule,
                 "when a packet counts as lost: per_path, rack ... ('spindrift info' lists)")
      ->group(group);
  app.add_option("--paths", a->paths, "paths per connection, 1..256 (16)")->group(group);
  app.add_option("--burst", a->burst, "bytes on one path before the next, 0..1M (64K)")
      ->group(group);
  app.add_option("--mtu", a->mtu, "largest payload per packet, a multiple of 128 in 512..16256")
      ->group(group);
  app.add_option("--crc", a->crc, "auto (between hosts; default), on or off")->group(group);
  app.add_option("--dscp", a->dscp, "of data packets, 0..63")->group(group);
  app.add_option("--deadline", a->deadline, "of each operation: 5s, 200ms (none)")->group(group);
  app.add_option("--device", a->device,
                 "client: the device to use, with its options (dpdk://net_memif0?ip=...)")
      ->group(group);
  app.add_option("--rails", a->rails, "local addresses to use, separated by commas")->group(group);
  app.add_option("--fault", a->faults,
                 "faults on purpose on what this side sends and receives; with local, on both "
                 "sides: loss=1%,reorder=5%")
      ->group(group);
  app.add_option("--capture", a->capture, "write this side's packets to a pcap file")->group(group);
  app.add_option(
         "--trace", a->trace,
         "write the flight recorder to a file at the end ('spindrift trace' shows it); with "
         "local, of both sides")
      ->group(group);
  app.add_flag("--guardian", a->has_guardian,
               "a thread keeps the transport alive (both sides with "
               "local)")
      ->group(group);
}

Status check_listen(const PerfArguments& a, const Registry& registry, PerfOptions* out) {
  if (a.listen) out->listen_address = *a.listen;
  if (out->listen_address.find("://") == std::string::npos)
    out->listen_address = "udp://" + out->listen_address;
  return tools::check_url(out->listen_address, tools::AddressUse::kListen, registry);
}

// A client of a provider that names devices says which; nobody else does.
Status check_device(const PerfArguments& a, const Registry& registry, PerfOptions* out) {
  const auto scheme_of = [](const std::string& url) { return url.substr(0, url.find("://")); };
  const std::string& peer = out->mode == Mode::kLocal ? out->listen_address : out->server_address;
  const bool needs_device = names_devices(scheme_of(peer));
  if (!a.device) {
    if (!needs_device) return ok_status();
    const bool is_dpdk = scheme_of(peer) == "dpdk";
    return usage(scheme_of(peer) + " needs --device: which one this side uses, as in " +
                 (is_dpdk ? "dpdk://net_memif0?ip=10.0.0.1/24" : scheme_of(peer) + "://auto"));
  }
  if (!needs_device || scheme_of(*a.device) != scheme_of(peer))
    return usage("--device " + *a.device + " does not go with the address " + peer);
  if (a.rails) return usage("--rails does not go with --device, whose option ip names the rails");
  out->device = *a.device;
  return tools::check_url(*a.device, tools::AddressUse::kListen, registry);
}

Status check_server(const PerfArguments& a, const Registry& registry, PerfOptions* out) {
  const bool chooses_test =
      a.operation || a.test || a.size || a.has_all_sizes || a.is_bidirectional || a.depth ||
      a.post_batch || a.connections || a.duration || a.iterations || a.warmup || a.has_verify ||
      a.min_mb_per_s || a.max_latency_us || a.has_json || a.congestion_control || a.path_selector ||
      a.loss_rule || a.paths || a.burst || a.mtu || a.crc || a.dscp || a.deadline || a.rails ||
      a.device;
  if (chooses_test) {
    return usage(
        "the client chooses the test and the transport; give the server only --listen, "
        "--once, --fault, --capture, --trace and --guardian");
  }
  Status usable = check_listen(a, registry, out);
  if (!usable.ok()) return usable;
  const auto faults = tools::check_faults(out->faults, CrcChoice::kAuto);
  if (!faults.ok()) return faults.error();
  out->has_corruption = faults.value().has_corruption;
  out->serves_once = a.serves_once;
  out->ready_fd = a.ready_fd;
  return ok_status();
}

Status check_sizes(const PerfArguments& a, PerfOptions* out) {
  TestShape& shape = out->shape;
  if (a.size && a.has_all_sizes) return usage("choose --size or --all, not both");
  if (shape.operation == Operation::kAtomic) {
    if (a.has_all_sizes) return usage("atomics are always 8 bytes; leave out --all");
    const Result<std::uint64_t> bytes = parse_bytes(a.size.value_or("8"));
    if (!bytes.ok()) return bytes.error();
    if (bytes.value() != kAtomicBytes) {
      return usage(absl::StrFormat("atomics are always 8 bytes; --size %s is not", *a.size));
    }
    shape.sizes = {kAtomicBytes};
    return ok_status();
  }
  if (a.has_all_sizes) {
    shape.sizes = size_ladder();
    return ok_status();
  }
  const Result<std::uint64_t> bytes =
      parse_bytes(a.size.value_or(out->has_bandwidth ? "64K" : "8"));
  if (!bytes.ok()) return bytes.error();
  if (bytes.value() > kMaxMessageBytes) {
    return usage(absl::StrFormat("--size %s is more than a message may have, 2G", *a.size));
  }
  if (bytes.value() == 0 && out->has_latency && shape.operation == Operation::kWrite) {
    return usage(
        "a write of zero bytes cannot be seen to arrive; measure the latency of send or "
        "write-imm, or choose a larger --size");
  }
  shape.sizes = {bytes.value()};
  return ok_status();
}

Status check_test(const PerfArguments& a, PerfOptions* out) {
  const Result<Operation> operation = parse_operation(a.operation.value_or("write"));
  if (!operation.ok()) return operation.error();
  out->shape.operation = operation.value();
  const std::string test = a.test.value_or("bw");
  if (test != "bw" && test != "lat" && test != "both") {
    return usage(absl::StrFormat("there is no test '%s'; choose bw, lat or both", test));
  }
  out->has_bandwidth = test != "lat";
  out->has_latency = test != "bw";
  out->shape.has_verify = a.has_verify;
  out->shape.is_bidirectional = a.is_bidirectional;
  out->shape.depth = a.depth.value_or(0);
  out->post_batch = a.post_batch.value_or(out->post_batch);
  out->shape.connections = a.connections.value_or(1);
  if (a.depth && (*a.depth < 1 || *a.depth > kMaxDepth)) {
    return usage(absl::StrFormat("--depth %u is outside 1..%u", *a.depth, kMaxDepth));
  }
  if (out->shape.connections < 1 || out->shape.connections > kMaxTestConnections) {
    return usage(absl::StrFormat("--connections %u is outside 1..%u", out->shape.connections,
                                 kMaxTestConnections));
  }
  if (!out->has_bandwidth && (a.is_bidirectional || a.connections || a.depth || a.post_batch)) {
    return usage(
        "--bidirectional, --connections, --depth and --post-batch are for bandwidth; latency sends "
        "one "
        "message at a time");
  }
  return check_sizes(a, out);
}

Status check_extent(const PerfArguments& a, PerfOptions* out) {
  if (a.duration && a.iterations) return usage("choose --duration or --iterations, not both");
  if (a.iterations && (*a.iterations < 1 || *a.iterations > kMaxCount)) {
    return usage(absl::StrFormat("--iterations %d is outside 1..2^31-1", *a.iterations));
  }
  if (a.warmup && (*a.warmup < 0 || *a.warmup > kMaxCount)) {
    return usage(absl::StrFormat("--warmup %d is outside 0..2^31-1", *a.warmup));
  }
  out->iterations = static_cast<std::uint64_t>(a.iterations.value_or(0));
  if (a.warmup) out->warmup = static_cast<std::uint64_t>(*a.warmup);
  if (a.duration) {
    const Result<Duration> duration = parse_duration(*a.duration);
    if (!duration.ok()) return duration.error();
    if (duration.value() < std::chrono::milliseconds(1) ||
        duration.value() > std::chrono::hours(24 * 7)) {
      return usage(absl::StrFormat("--duration %s is outside 1ms..7 days", *a.duration));
    }
    out->duration = duration.value();
  }
  if (a.min_mb_per_s && !out->has_bandwidth) return usage("--min-bw needs --test bw or both");
  if (a.max_latency_us && !out->has_latency) return usage("--max-lat needs --test lat or both");
  if (a.min_mb_per_s && !is_limit(*a.min_mb_per_s)) {
    return usage(absl::StrFormat("--min-bw %g is not a number of 0 or more", *a.min_mb_per_s));
  }
  if (a.max_latency_us && !is_limit(*a.max_latency_us)) {
    return usage(absl::StrFormat("--max-lat %g is not a number of 0 or more", *a.max_latency_us));
  }
  out->min_mb_per_s = a.min_mb_per_s;
  out->max_latency_us = a.max_latency_us;
  out->has_json = a.has_json;
  return ok_status();
}

Status check_packets(const PerfArguments& a, TransportChoice* out) {
  out->path_count = a.paths.value_or(out->path_count);
  if (out->path_count < 1 || out->path_count > kMaxPaths) {
    return usage(absl::StrFormat("--paths %u is outside 1..%u", out->path_count, kMaxPaths));
  }
  if (a.burst) {
    const Result<std::uint64_t> bytes = parse_bytes(*a.burst);
    if (!bytes.ok()) return bytes.error();
    if (bytes.value() > (1ULL << 20)) {
      return usage(absl::StrFormat("--burst %s is more than 1M", *a.burst));
    }
    out->burst_bytes = static_cast<std::uint32_t>(bytes.value());
  }
  if (a.mtu) {
    const Result<std::uint64_t> bytes = parse_bytes(*a.mtu);
    if (!bytes.ok()) return bytes.error();
    if (bytes.value() < 512 || bytes.value() > 16256 || bytes.value() % 128 != 0) {
      return usage(absl::StrFormat("--mtu %s is not a multiple of 128 in 512..16256", *a.mtu));
    }
    out->max_payload_mtu = static_cast<std::uint32_t>(bytes.value());
  }
  return ok_status();
}

Status check_transport(const PerfArguments& a, const Registry& registry, TransportChoice* out) {
  if (a.congestion_control) out->congestion_control = *a.congestion_control;
  if (a.path_selector) out->path_selector = *a.path_selector;
  if (a.loss_rule) out->loss_rule = *a.loss_rule;
  const auto algorithm = registry.find_congestion_control(out->congestion_control);
  if (!algorithm.ok()) return algorithm.error();
  const auto policy = registry.find_path_selector(out->path_selector);
  if (!policy.ok()) return policy.error();
  const auto loss_rule = registry.find_loss_rule(out->loss_rule);
  if (!loss_rule.ok()) return loss_rule.error();
  Status packets = check_packets(a, out);
  if (!packets.ok()) return packets;
  const std::optional<CrcChoice> crc = a.crc ? parse_crc(*a.crc) : out->crc;
  if (!crc) return usage(absl::StrFormat("--crc is auto, on or off, not '%s'", *a.crc));
  out->crc = *crc;
  if (a.dscp.value_or(0) > 63) return usage(absl::StrFormat("--dscp %u is outside 0..63", *a.dscp));
  if (a.dscp) out->dscp = static_cast<std::uint8_t>(*a.dscp);
  if (a.deadline) {
    const Result<Duration> deadline = parse_duration(*a.deadline);
    if (!deadline.ok()) return deadline.error();
    out->deadline = deadline.value();
  }
  return ok_status();
}

// Messages per connection, unless the user says how many.
std::uint64_t default_warmup(const TestShape& shape, std::uint64_t message_bytes, bool is_latency) {
  const std::uint64_t usual = is_latency ? (message_bytes < (1ULL << 20) ? 100 : 10)
                                         : std::uint64_t{2} * plan_run(shape, message_bytes).depth;
  const std::uint64_t streams =
      is_latency ? 1 : std::uint64_t{shape.connections} * (shape.is_bidirectional ? 2 : 1);
  return std::min(usual, kWarmupBytes / (std::max<std::uint64_t>(message_bytes, 1) * streams));
}

}  // namespace

void declare_arguments(CLI::App& app, PerfArguments* a) {
  app.footer(kFooter);
  app.add_option("target", a->target,
                 "server, local, or the server's address: 10.0.0.1, [::1]:4793, "
                 "udp://10.0.0.1:4793,10.1.0.1:4793")
      ->required();
  app.add_option("--listen", a->listen,
                 "server, local: where to listen (udp://0.0.0.0:4793, shm://name)");
  app.add_flag("--once", a->serves_once, "server: serve one client, then exit");
  app.add_option("--ready-fd", a->ready_fd)->group("");
  declare_test(app, a);
  declare_transport(app, a);
}

Result<PerfOptions> check_arguments(const PerfArguments& a, const Registry& registry,
                                    const Settings& settings) {
  PerfOptions out;
  out.settings = settings;
  out.transport = choice_of(settings.connect);
  out.trace = a.trace.value_or("");
  out.faults = a.faults.value_or("");
  out.capture = a.capture.value_or("");
  out.has_guardian = a.has_guardian || settings.endpoint.has_guardian;
  if (a.target == "server") {
    out.mode = Mode::kServer;
    const Status status = check_server(a, registry, &out);
    if (!status.ok()) return status.error();
    return out;
  }
  out.mode = a.target == "local" ? Mode::kLocal : Mode::kClient;
  if (a.serves_once || a.ready_fd >= 0) return usage("--once is for 'spindrift perf server'");
  if (a.listen && out.mode != Mode::kLocal)
    return usage("--listen is for 'spindrift perf server' and 'spindrift perf local'");
  if (out.mode == Mode::kLocal) {
    out.listen_address = "udp://127.0.0.1:0";
    const Status usable = check_listen(a, registry, &out);
    if (!usable.ok()) return usable.error();
  }
  out.server_address = a.target.find("://") == std::string::npos ? "udp://" + a.target : a.target;
  Status device = check_device(a, registry, &out);
  if (!device.ok()) return device.error();
  if (a.rails) {
    for (const std::string& rail : std::vector<std::string>(absl::StrSplit(
             absl::string_view(a.rails->data(), a.rails->size()), ',', absl::SkipEmpty()))) {
      out.rails.push_back(rail);
    }
    if (out.rails.empty()) return usage("--rails names no address");
  }
  Status status = check_test(a, &out);
  if (status.ok()) status = check_extent(a, &out);
  if (status.ok()) status = check_transport(a, registry, &out.transport);
  if (!status.ok()) return status.error();
  const auto faults = tools::check_faults(out.faults, out.transport.crc);
  if (!faults.ok()) return faults.error();
  out.has_corruption = faults.value().has_corruption;
  out.transport.crc = faults.value().crc;
  if (out.mode == Mode::kLocal) return out;
  status = tools::check_url(out.server_address, tools::AddressUse::kTarget, registry);
  if (!status.ok()) return status.error();
  return out;
}

RunRequest make_run(const PerfOptions& options, std::uint64_t message_bytes, bool is_latency) {
  RunRequest run{.is_latency = is_latency, .message_bytes = message_bytes};
  run.post_batch = options.post_batch;
  run.iterations = options.iterations;
  if (run.iterations == 0 && options.duration == Duration{} && is_latency) {
    run.iterations = kDefaultLatencyIterations;
  }
  if (run.iterations == 0) {
    const bool is_long_list = options.shape.sizes.size() > 1;
    const Duration otherwise = std::chrono::milliseconds(is_long_list ? 500 : 2000);
    run.duration = options.duration == Duration{} ? otherwise : options.duration;
  }
  run.warmup =
      options.warmup ? *options.warmup : default_warmup(options.shape, message_bytes, is_latency);
  return run;
}

}  // namespace spindrift::perf
