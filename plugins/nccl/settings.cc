#include "plugins/nccl/settings.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include "absl/strings/str_format.h"

namespace spindrift::nccl {
namespace {

using std::chrono::milliseconds;

// A peer that dies without a word is noticed within 5 s: the probe after a quiet second, and this.
constexpr milliseconds kSilenceLimit{3500};
// A job of many ranks starts slowly, and the peer accepts when it gets to it.
constexpr std::chrono::seconds kConnectTimeout{60};
constexpr std::uint32_t kMaxRegions = 65536;
constexpr std::uint32_t kReceiveQueue = 512;  // 32 requests of 8 receives, and those on their way
// The time-out of an InfiniBand queue pair is 4.096 us times a power of two.
constexpr std::uint64_t kIbTimeoutUnitNs = 4096;

class Environment {
 public:
  explicit Environment(const std::vector<std::string>& entries) : entries_(entries) {}

  std::optional<std::string> text(std::string_view name) const {
    std::optional<std::string> found;
    for (const std::string& entry : entries_)
      if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
        found = entry.substr(name.size() + 1);
    return found && !found->empty() ? found : std::nullopt;
  }

  // nullopt when it is not set.
  Result<std::optional<std::uint64_t>> number(std::string_view name, std::uint64_t lowest,
                                              std::uint64_t highest) const {
    const auto value = text(name);
    if (!value) return std::optional<std::uint64_t>();
    std::uint64_t parsed = 0;
    const auto end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, parsed);
    if (error != std::errc() || stop != end || parsed < lowest || parsed > highest)
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("%s=%s is not a number of %d..%d", std::string(name), *value,
                                   lowest, highest));
    return std::optional<std::uint64_t>(parsed);
  }

 private:
  const std::vector<std::string>& entries_;
};

// A setting of ours that somebody has made stands above NCCL's.
bool is_unset(const Settings& settings, std::string_view name) {
  return origin_of(settings, name) == "default";
}

Status take_ib_variables(const Environment& environment, const Settings& settings,
                         ConnectOptions& connect) {
  const auto traffic_class = environment.number("NCCL_IB_TC", 0, 255);
  if (!traffic_class.ok()) return traffic_class.error();
  if (traffic_class.value() && is_unset(settings, "dscp"))
    connect.dscp = static_cast<std::uint8_t>(*traffic_class.value() >> 2);
  const auto queue_pairs = environment.number("NCCL_IB_QPS_PER_CONNECTION", 1, kMaxPaths);
  if (!queue_pairs.ok()) return queue_pairs.error();
  if (queue_pairs.value() && is_unset(settings, "path_count"))
    connect.path_count = static_cast<std::uint32_t>(*queue_pairs.value());
  const auto timeout = environment.number("NCCL_IB_TIMEOUT", 1, 31);
  if (!timeout.ok()) return timeout.error();
  const auto retries = environment.number("NCCL_IB_RETRY_CNT", 1, 7);
  if (!retries.ok()) return retries.error();
  if (timeout.value() && is_unset(settings, "silence_limit")) {
    const std::uint64_t ns = (kIbTimeoutUnitNs << *timeout.value()) * retries.value().value_or(7);
    connect.silence_limit = std::clamp(Duration(static_cast<std::int64_t>(ns)),
                                       Duration(milliseconds(1)), Duration(std::chrono::hours(1)));
  }
  return ok_status();
}

Status take_family(const Environment& environment, DeviceChoice& devices) {
  const std::string family = environment.text("NCCL_SOCKET_FAMILY").value_or("");
  if (family == "AF_INET") devices.family = 4;
  if (family == "AF_INET6") devices.family = 6;
  if (!family.empty() && devices.family == 0)
    return Error(ErrorCode::kInvalidArgument,
                 "NCCL_SOCKET_FAMILY=" + family + " is neither AF_INET nor AF_INET6");
  return ok_status();
}

Status take_own_variables(const Environment& environment, PluginSettings& out) {
  const auto shm = environment.number("SPINDRIFT_NCCL_SHM", 0, 1);
  if (!shm.ok()) return shm.error();
  const auto nccl_shm = environment.number("NCCL_SHM_DISABLE", 0, 1);
  out.has_shm =
      shm.value().value_or(nccl_shm.ok() && nccl_shm.value().value_or(0) == 1 ? 0 : 1) == 1;
  const auto ll128 = environment.number("SPINDRIFT_NCCL_LL128", 0, 1);
  if (!ll128.ok()) return ll128.error();
  out.keeps_ll128 = ll128.value().value_or(1) == 1;
  const auto threads = environment.number("SPINDRIFT_NCCL_THREADS", 0, kMaxThreads);
  if (!threads.ok()) return threads.error();
  out.threads = static_cast<std::uint32_t>(threads.value().value_or(0));
  out.open.faults = environment.text("SPINDRIFT_NCCL_FAULT").value_or("");
  if (!out.open.faults.empty())
    out.notes.push_back("SPINDRIFT_NCCL_FAULT=" + out.open.faults +
                        ": packets are damaged on purpose, and shared memory is not used");
  if (!out.open.faults.empty()) out.has_shm = false;
  const auto own = environment.text("SPINDRIFT_NCCL_IFNAME");
  out.devices.interfaces = own ? *own : environment.text("NCCL_SOCKET_IFNAME").value_or("");
  out.devices.own_names = own.value_or("");
  if (!own) out.devices.adapters = environment.text("NCCL_IB_HCA").value_or("");
  out.devices.rails = environment.text("SPINDRIFT_NCCL_RAILS").value_or("");
  const auto rdma = environment.number("SPINDRIFT_NCCL_RDMA", 0, 1);
  if (!rdma.ok()) return rdma.error();
  const auto ib_disable = environment.number("NCCL_IB_DISABLE", 0, 1);
  const bool is_disabled = ib_disable.ok() && ib_disable.value().value_or(0) == 1;
  out.devices.has_rdma = rdma.value().value_or(is_disabled ? 0 : 1) == 1;
  return take_family(environment, out.devices);
}

}  // namespace

SettingsSources plugin_sources() {
  SettingsSources sources = process_sources();
  if (const auto file = Environment(sources.environment).text("SPINDRIFT_CONF")) {
    sources.files = {*file};
    sources.needs_files = true;
  }
  return sources;
}

Result<PluginSettings> load_plugin_settings(const SettingsSources& sources) {
  Result<Settings> loaded = load_settings(sources);
  if (!loaded.ok()) return loaded.error();
  const Settings& settings = loaded.value();
  const Environment environment(sources.environment);
  PluginSettings out;
  out.notes = settings.warnings;
  out.connect = settings.connect;
  if (is_unset(settings, "silence_limit")) out.connect.silence_limit = kSilenceLimit;
  if (is_unset(settings, "connect_timeout")) out.connect.connect_timeout = kConnectTimeout;
  out.merged_path_selector =
      is_unset(settings, "path_selector") ? "least_rtt" : out.connect.path_selector;
  if (Status status = take_ib_variables(environment, settings, out.connect); !status.ok())
    return status.error();
  out.open = {.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm};
  if (Status status = take_own_variables(environment, out); !status.ok()) return status.error();
  EndpointConfig& endpoint = out.open.endpoint;
  endpoint.has_guardian = true;  // NCCL's proxy sleeps between operations
  endpoint.max_regions = std::max(endpoint.max_regions, kMaxRegions);
  endpoint.receive_queue = std::max(endpoint.receive_queue, kReceiveQueue);
  endpoint.send_queue = std::max(endpoint.send_queue, kReceiveQueue);
  return out;
}

}  // namespace spindrift::nccl
