#include "plugins/foreign.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"

namespace spindrift {
namespace {

// More than any version will have: a size above it is not one.
constexpr std::size_t kSaneBytes = 65536;
constexpr std::uint32_t kMaxParts = 256;
constexpr std::uint32_t kMaxParameters = 256;
constexpr std::size_t kMaxNameBytes = 63;

Error misfit(std::string sentence) {
  return Error(ErrorCode::kInvalidArgument, std::move(sentence));
}

std::string_view text_or_empty(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

Status check_size(std::string_view what, std::size_t given, std::size_t needed) {
  if (given >= needed && given <= kSaneBytes) return ok_status();
  return misfit(
      absl::StrFormat("the struct_size of its %s is %d; version 1 has %d bytes. Set it to sizeof, "
                      "and build against "
                      "this library's headers",
                      what, given, needed));
}

Status check_name(std::string_view what, const char* given) {
  const std::string_view name = text_or_empty(given);
  const bool is_fine = !name.empty() && name.size() <= kMaxNameBytes &&
                       std::all_of(name.begin(), name.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
                       });
  if (is_fine) return ok_status();
  return misfit(absl::StrFormat("the name of a %s is '%s'; it must be 1..%d of a-z, 0-9 and _",
                                what, name, kMaxNameBytes));
}

struct Function {
  std::string_view name;
  bool is_there;
};

Status check_functions(std::string_view owner, std::span<const Function> functions) {
  for (const Function& function : functions)
    if (!function.is_there)
      return misfit(absl::StrFormat("the function %s of %s is null; only describe may be",
                                    function.name, owner));
  return ok_status();
}

Status check_parameter(std::string_view owner, const spindrift_plugin_parameter& parameter) {
  Status named = check_name("parameter", parameter.name);
  if (!named.ok()) return named;
  const bool is_finite = std::isfinite(parameter.default_value) && std::isfinite(parameter.min) &&
                         std::isfinite(parameter.max);
  if (is_finite && parameter.min <= parameter.default_value &&
      parameter.default_value <= parameter.max)
    return ok_status();
  return misfit(absl::StrFormat(
      "parameter %s of %s has the default %g and the bounds %g..%g; all must be numbers, and the "
      "default must lie within",
      parameter.name, owner, parameter.default_value, parameter.min, parameter.max));
}

// Passes numbers on; what is no number is left out.
void write_field(void* writer, const char* name, double value) {
  if (name == nullptr || !std::isfinite(value)) return;
  static_cast<StateWriter*>(writer)->field(name, value);
}

std::int64_t ns_of(Time time) {
  return time.time_since_epoch().count();
}

spindrift_plugin_limits limits_of(const SendLimits& limits) {
  return {.struct_size = sizeof(spindrift_plugin_limits),
          .window_bytes = limits.window_bytes,
          .credit_bytes = limits.credit_bytes,
          .pacing_rate_bps = limits.pacing_rate.bits_per_second(),
          .timer_ns = ns_of(limits.timer)};
}

SendLimits limits_of(const spindrift_plugin_limits& limits) {
  return {.window_bytes = limits.window_bytes,
          .credit_bytes = limits.credit_bytes,
          .pacing_rate = Rate::bits_per_second(limits.pacing_rate_bps),
          .timer = Time(Duration(limits.timer_ns))};
}

spindrift_plugin_signal signal_of(Time now, const Signal& signal) {
  spindrift_plugin_signal out{};
  out.struct_size = sizeof(out);
  out.now_ns = ns_of(now);
  if (const auto* credit = std::get_if<CreditGranted>(&signal)) {
    out.kind = SPINDRIFT_PLUGIN_SIGNAL_CREDIT_GRANTED;
    out.bytes = credit->credit_bytes;
  } else if (std::holds_alternative<TimerFired>(signal)) {
    out.kind = SPINDRIFT_PLUGIN_SIGNAL_TIMER_FIRED;
  } else if (const auto* path = std::get_if<PathChanged>(&signal)) {
    out.kind = SPINDRIFT_PLUGIN_SIGNAL_PATH_CHANGED;
    out.base_rtt_ns = path->base_rtt.count();
    out.link_rate_bps = path->link_rate.bits_per_second();
  } else if (const auto* spurious = std::get_if<LossWasSpurious>(&signal)) {
    out.kind = SPINDRIFT_PLUGIN_SIGNAL_LOSS_WAS_SPURIOUS;
    out.bytes = spurious->bytes;
  } else {
    out.kind = SPINDRIFT_PLUGIN_SIGNAL_CONGESTION_NOTIFICATION;
  }
  return out;
}

class CcInstance final : public CongestionControl {
 public:
  CcInstance(const spindrift_plugin_cc& table, void* self) : table_(table), self_(self) {}
  CcInstance(const CcInstance&) = delete;
  CcInstance& operator=(const CcInstance&) = delete;
  ~CcInstance() override { table_.destroy(self_); }

  SendLimits initial() const override {
    spindrift_plugin_limits limits = limits_of(SendLimits{});
    table_.initial(self_, &limits);
    limits_ = limits;
    return limits_of(limits);
  }
  SendLimits on_ack(const AckEvent& event) override {
    std::array<spindrift_plugin_hop, kMaxHops> hops{};
    const std::size_t hop_count = std::min(event.telemetry.size(), kMaxHops);
    for (std::size_t i = 0; i < hop_count; ++i)
      hops[i] = {.tx_bytes = event.telemetry[i].tx_bytes,
                 .timestamp_ns = event.telemetry[i].timestamp_ns,
                 .link_rate_bps = event.telemetry[i].link_rate.bits_per_second(),
                 .queue_bytes = event.telemetry[i].queue_bytes,
                 .link_id = event.telemetry[i].link_id};
    const spindrift_plugin_ack ack{.struct_size = sizeof(spindrift_plugin_ack),
                                   .now_ns = ns_of(event.now),
                                   .sent_time_ns = ns_of(event.sent_time),
                                   .rtt_ns = event.rtt.count(),
                                   .acked_bytes = event.acked_bytes,
                                   .received_bytes = event.received_bytes,
                                   .in_flight_bytes = event.in_flight_bytes,
                                   .delivered_bytes = event.delivery.delivered_bytes,
                                   .delivery_interval_ns = event.delivery.interval.count(),
                                   .hops = hops.data(),
                                   .hop_count = hop_count,
                                   .acked_packets = event.acked_packets,
                                   .out_of_order_packets = event.out_of_order_packets,
                                   .receiver_penalty = event.receiver_penalty,
                                   .restores_window = event.restores_window,
                                   .is_marked = event.is_marked,
                                   .is_app_limited = event.delivery.is_app_limited};
    return call([&] { table_.on_ack(self_, &ack, &limits_); });
  }
  SendLimits on_loss(const LossEvent& event) override {
    const spindrift_plugin_loss loss{.struct_size = sizeof(spindrift_plugin_loss),
                                     .now_ns = ns_of(event.now),
                                     .newest_sent_time_ns = ns_of(event.newest_sent_time),
                                     .lost_bytes = event.lost_bytes,
                                     .in_flight_bytes = event.in_flight_bytes,
                                     .lost_packets = event.lost_packets,
                                     .cause = static_cast<std::uint32_t>(event.cause)};
    return call([&] { table_.on_loss(self_, &loss, &limits_); });
  }
  SendLimits on_signal(Time now, const Signal& signal) override {
    const spindrift_plugin_signal one = signal_of(now, signal);
    // A timer that has fired is not set any more, unless the plug-in sets it again.
    if (one.kind == SPINDRIFT_PLUGIN_SIGNAL_TIMER_FIRED) limits_.timer_ns = SPINDRIFT_PLUGIN_NEVER;
    return call([&] { table_.on_signal(self_, &one, &limits_); });
  }
  void describe(StateWriter& out) const override {
    if (table_.describe != nullptr) table_.describe(self_, &write_field, &out);
  }

 private:
  static constexpr std::size_t kMaxHops = 16;

  template <class Function>
  SendLimits call(Function function) {
    limits_.struct_size = sizeof(limits_);
    function();
    return limits_of(limits_);
  }

  const spindrift_plugin_cc& table_;
  void* self_;
  mutable spindrift_plugin_limits limits_{};  // as the plug-in left them
};

class PathInstance final : public PathSelector {
 public:
  PathInstance(const spindrift_plugin_path_selector& table, void* self)
      : table_(table), self_(self) {}
  PathInstance(const PathInstance&) = delete;
  PathInstance& operator=(const PathInstance&) = delete;
  ~PathInstance() override { table_.destroy(self_); }

  void pick(std::span<PathId> out) override {
    for (PathId& path : out) {
      // What the plug-in leaves alone is no path, and passed over.
      path.value = UINT16_MAX;
      table_.pick(self_, &path.value, 1);
    }
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback) {
      const spindrift_plugin_feedback given{.rtt_ns = one.rtt.count(),
                                            .packets = one.packets,
                                            .path = one.path.value,
                                            .outcome = static_cast<std::uint8_t>(one.outcome),
                                            .reserved = 0};
      table_.on_feedback(self_, &given, 1);
    }
  }
  void describe(StateWriter& out) const override {
    if (table_.describe != nullptr) table_.describe(self_, &write_field, &out);
  }

 private:
  const spindrift_plugin_path_selector& table_;
  void* self_;
};

std::unique_ptr<CongestionControl> make_cc(const void* origin, const FlowInfo& flow,
                                           std::span<const double> values) {
  const spindrift_plugin_cc& table = static_cast<const ForeignCc*>(origin)->table();
  const spindrift_plugin_flow given{.struct_size = sizeof(spindrift_plugin_flow),
                                    .now_ns = ns_of(flow.now),
                                    .base_rtt_ns = flow.base_rtt.count(),
                                    .host_latency_ns = flow.host_latency.count(),
                                    .link_rate_bps = flow.link_rate.bits_per_second(),
                                    .max_window_bytes = flow.max_window_bytes,
                                    .mtu_bytes = flow.mtu_bytes};
  void* self = table.make(table.context, &given, values.data(), values.size());
  return self == nullptr ? nullptr : std::make_unique<CcInstance>(table, self);
}

std::unique_ptr<PathSelector> make_path_selector(const void* origin, std::uint32_t path_count,
                                                 std::uint64_t seed) {
  const auto& table = static_cast<const ForeignPathSelector*>(origin)->table();
  void* self = table.make(table.context, path_count, seed);
  return self == nullptr ? nullptr : std::make_unique<PathInstance>(table, self);
}

}  // namespace

ForeignCc::ForeignCc(const spindrift_plugin_cc& table) : table_{} {
  std::memcpy(&table_, &table, std::min(table.struct_size, sizeof(table_)));
  for (std::uint32_t i = 0; i < table_.parameter_count; ++i) {
    const spindrift_plugin_parameter& one = table_.parameters[i];
    parameters_.push_back({.name = one.name,
                           .unit = text_or_empty(one.unit),
                           .default_value = one.default_value,
                           .min = one.min,
                           .max = one.max,
                           .help = text_or_empty(one.help),
                           .source = text_or_empty(one.source)});
  }
  const std::uint32_t traits = table_.traits;
  info_ = {.name = table_.name,
           .summary = text_or_empty(table_.summary),
           .traits = {.needs_ecn = (traits & SPINDRIFT_PLUGIN_NEEDS_ECN) != 0,
                      .needs_telemetry = (traits & SPINDRIFT_PLUGIN_NEEDS_TELEMETRY) != 0,
                      .needs_cnp = (traits & SPINDRIFT_PLUGIN_NEEDS_CNP) != 0,
                      .is_receiver_driven = (traits & SPINDRIFT_PLUGIN_IS_RECEIVER_DRIVEN) != 0},
           .parameters = parameters_,
           .make_from = &make_cc,
           .origin = this};
}

ForeignPathSelector::ForeignPathSelector(const spindrift_plugin_path_selector& table) : table_{} {
  std::memcpy(&table_, &table, std::min(table.struct_size, sizeof(table_)));
  info_ = {.name = table_.name,
           .summary = text_or_empty(table_.summary),
           .make_from = &make_path_selector,
           .origin = this};
}

Status check_plugin_table(const spindrift_plugin_table* table) {
  if (table == nullptr) return misfit("spindrift_plugin_v1() returned no table");
  Status sized = check_size("plug-in table", table->struct_size, sizeof(*table));
  if (!sized.ok()) return sized;
  if (table->version != SPINDRIFT_PLUGIN_VERSION)
    return misfit(absl::StrFormat(
        "it speaks version %d of the plug-in interface, and this library version %d; build it "
        "against this library's headers",
        table->version, SPINDRIFT_PLUGIN_VERSION));
  const std::uint32_t ccs = table->congestion_control_count;
  const std::uint32_t paths = table->path_selector_count;
  if ((ccs != 0 && table->congestion_controls == nullptr) ||
      (paths != 0 && table->path_selectors == nullptr))
    return misfit("it counts parts and has no list of them");
  if (ccs > kMaxParts || paths > kMaxParts || ccs + paths == 0)
    return misfit(absl::StrFormat(
        "it offers %d congestion controls and %d path selectors; 1..%d are possible", ccs, paths,
        kMaxParts));
  return ok_status();
}

Status check_plugin_cc(const spindrift_plugin_cc* table) {
  if (table == nullptr) return misfit("a congestion control in its list is null");
  Status checked = check_size("congestion control", table->struct_size, sizeof(*table));
  if (!checked.ok()) return checked;
  checked = check_name("congestion control", table->name);
  if (!checked.ok()) return checked;
  const Function functions[] = {
      {"make", table->make != nullptr},       {"destroy", table->destroy != nullptr},
      {"initial", table->initial != nullptr}, {"on_ack", table->on_ack != nullptr},
      {"on_loss", table->on_loss != nullptr}, {"on_signal", table->on_signal != nullptr},
  };
  checked = check_functions(table->name, functions);
  if (!checked.ok()) return checked;
  if (table->parameter_count > kMaxParameters ||
      (table->parameter_count != 0 && table->parameters == nullptr))
    return misfit(absl::StrFormat("%s counts %d parameters; there must be a list of up to %d",
                                  table->name, table->parameter_count, kMaxParameters));
  for (std::uint32_t i = 0; i < table->parameter_count; ++i) {
    checked = check_parameter(table->name, table->parameters[i]);
    if (!checked.ok()) return checked;
  }
  return ok_status();
}

Status check_plugin_path_selector(const spindrift_plugin_path_selector* table) {
  if (table == nullptr) return misfit("a path selector in its list is null");
  Status checked = check_size("path selector", table->struct_size, sizeof(*table));
  if (!checked.ok()) return checked;
  checked = check_name("path selector", table->name);
  if (!checked.ok()) return checked;
  const Function functions[] = {{"make", table->make != nullptr},
                                {"destroy", table->destroy != nullptr},
                                {"pick", table->pick != nullptr},
                                {"on_feedback", table->on_feedback != nullptr}};
  return check_functions(table->name, functions);
}

}  // namespace spindrift
