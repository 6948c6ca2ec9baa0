#include "tests/soak/plan.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace spindrift::soak {
namespace {

using namespace std::chrono_literals;

template <class T, std::size_t n>
T one_of(Rng& rng, const std::array<T, n>& values) {
  return values[rng.below(n)];
}

void choose_sizes(Rng& rng, Plan& plan) {
  plan.max_bytes = one_of(
      rng, std::array<std::uint32_t, 8>{64, 600, 4096, 4096, 20000, 70000, 300000, 3U << 20U});
  const bool is_big = plan.max_bytes > 100000;
  plan.hosts = is_big ? 2 : 2 + static_cast<std::uint32_t>(rng.below(3));
  plan.links = is_big ? 1 : 1 + static_cast<std::uint32_t>(rng.below(5));
  plan.steps = is_big ? 20 : 40 + static_cast<std::uint32_t>(rng.below(160));
  plan.slots = is_big ? 2 : 4 + static_cast<std::uint32_t>(rng.below(12));
  plan.rails = 1 + static_cast<std::uint32_t>(rng.below(2));
}

void choose_network(Rng& rng, Plan& plan) {
  plan.network.max_packet_bytes =
      one_of(rng, std::array<std::uint32_t, 4>{1472, 2048, 8972, 16400});
  plan.network.one_way_delay = Duration(static_cast<std::int64_t>(1000 + rng.below(100000)));
  if (rng.below(2) == 0) {
    plan.network.link_rate = Rate::gbps(one_of(rng, std::array<double, 4>{1, 10, 100, 400}));
    plan.network.queue_bytes = 20000 + rng.below(2U << 20U);
    plan.network.mark_bytes = rng.below(plan.network.queue_bytes);
  }
  plan.copies_on_send = rng.below(2) == 0;
  if (rng.below(2) == 0) plan.max_burst_packets = 16;
}

void choose_options(Rng& rng, Plan& plan) {
  EndpointConfig& e = plan.endpoint;
  e.max_connections = 64;
  e.max_regions = 256;
  e.completion_queue = 4096;
  e.send_queue = one_of(rng, std::array<std::uint32_t, 4>{1, 4, 16, 64});
  e.receive_queue = one_of(rng, std::array<std::uint32_t, 3>{4, 16, 64});
  e.window_packets = one_of(rng, std::array<std::uint32_t, 4>{128, 256, 1024, 2048});
  e.inline_buffers = one_of(rng, std::array<std::uint32_t, 3>{0, 4, 64});
  e.max_reads = one_of(rng, std::array<std::uint32_t, 4>{1, 2, 16, 64});
  e.turn_packets = one_of(rng, std::array<std::uint32_t, 3>{1, 16, 512});
  e.half_open_before_cookie = one_of(rng, std::array<std::uint32_t, 4>{64, 64, 1, 0});
  ConnectOptions& o = plan.options;
  o.congestion_control =
      one_of(rng, std::array<const char*, 8>{"nscc", "dcqcn", "fixed_window", "dctcp", "swift",
                                             "timely", "receiver_credit", "nscc+receiver_credit"});
  o.path_selector = one_of(rng, std::array<const char*, 6>{"reps", "mixed", "bitmap", "least_rtt",
                                                           "round_robin", "single"});
  o.path_count = one_of(rng, std::array<std::uint32_t, 5>{1, 2, 7, 16, 64});
  o.burst_bytes = one_of(rng, std::array<std::uint32_t, 3>{0, 8192, 65536});
  o.max_payload_mtu = one_of(rng, std::array<std::uint32_t, 4>{512, 1408, 4096, 16256});
  o.crc = one_of(rng, std::array<CrcChoice, 2>{CrcChoice::kAuto, CrcChoice::kOn});
  o.connect_timeout = 60s;
  o.silence_limit = std::chrono::seconds(20 + rng.below(40));
  o.silence_limit_passive = o.silence_limit;
  o.close_timeout = std::chrono::milliseconds(1 + rng.below(2000));
}

double some(Rng& rng, double highest) {
  return rng.below(3) == 0 ? static_cast<double>(rng.below(1000)) / 1000 * highest : 0;
}

void choose_faults(Rng& rng, Plan& plan) {
  if (rng.below(8) == 0) return;  // a good network
  FaultConfig& f = plan.faults;
  const double highest = rng.below(4) == 0 ? 0.25 : 0.03;
  f.loss = some(rng, highest);
  f.duplicate = some(rng, highest);
  f.reorder = some(rng, highest);
  f.corrupt = some(rng, highest);
  f.reorder_packets = static_cast<std::uint16_t>(1 + rng.below(64));
  f.reorder_time = Duration(static_cast<std::int64_t>(1000 + rng.below(1000000)));
  if (rng.below(4) == 0) f.delay = Duration(static_cast<std::int64_t>(rng.below(2000000)));
  if (rng.below(4) == 0) f.jitter = Duration(static_cast<std::int64_t>(rng.below(500000)));
  if (f.corrupt > 0) plan.options.crc = CrcChoice::kOn;  // without it nothing is promised
}

}  // namespace

Plan make_plan(Rng& rng) {
  Plan plan;
  choose_sizes(rng, plan);
  choose_network(rng, plan);
  choose_options(rng, plan);
  choose_faults(rng, plan);
  const auto sometimes = [&rng](std::uint32_t highest) {
    return rng.below(2) == 0 ? static_cast<std::uint32_t>(rng.below(highest)) : 0U;
  };
  plan.closes = sometimes(60);
  plan.aborts = sometimes(40);
  plan.restarts = sometimes(20);
  plan.freezes = sometimes(40);
  plan.blackouts = sometimes(30);
  plan.mistakes = sometimes(20);
  plan.rejects = sometimes(300);
  plan.deadlines = sometimes(100);
  plan.unsignaled = sometimes(500);
  plan.has_shared_queue = rng.below(3) == 0;
  return plan;
}

std::string describe(const Plan& p) {
  return absl::StrCat(
      p.hosts, " hosts, ", p.rails, " rails, ", p.links, " links, up to ", p.max_bytes, " bytes, ",
      p.options.path_count, " paths, ", p.options.path_selector, ", ", p.options.congestion_control,
      ", payload MTU ", p.options.max_payload_mtu, ", window ", p.endpoint.window_packets,
      ", send queue ", p.endpoint.send_queue, ", ",
      p.options.crc == CrcChoice::kOn ? "CRC" : "no CRC", ", loss ", p.faults.loss, ", duplicate ",
      p.faults.duplicate, ", reorder ", p.faults.reorder, ", corrupt ", p.faults.corrupt,
      p.has_shared_queue ? ", shared receive queue" : "");
}

}  // namespace spindrift::soak
