#pragma once
// For authors of plug-ins in C++: the ordinary classes and one macro, in a shared object that needs
// only these headers.
//
//   #include "spindrift/plugin_adapter.h"
//   class Foo final : public spindrift::CongestionControl { ... };
//   const spindrift::CcInfo kFoo{.name = "foo", .summary = "...", .make = &make};
//   SPINDRIFT_PLUGIN(kFoo)      // any number of CcInfo and PathSelectorInfo
//
// An exception that leaves a `make` turns into its refusal; one that leaves another function ends
// the process.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/path_selector.h"
#include "spindrift/plugin.h"

namespace spindrift::plugin_adapter {

// What the other side knows of a struct; the rest is zero.
template <class T>
T known_part(const T* given) noexcept {
  T out{};
  std::memcpy(&out, given, std::min(given->struct_size, sizeof(T)));
  return out;
}

inline Time time_of(std::int64_t ns) noexcept {
  return Time(Duration(ns));
}

class FieldWriter final : public StateWriter {
 public:
  FieldWriter(spindrift_plugin_field function, void* writer)
      : function_(function), writer_(writer) {}
  void field(std::string_view name, double value) override {
    std::array<char, 64> text{};
    name.copy(text.data(), text.size() - 1);
    function_(writer_, text.data(), value);
  }

 private:
  spindrift_plugin_field function_;
  void* writer_;
};

// Calls a CongestionControl through C functions.
struct CcFunctions {
  static CongestionControl& of(void* self) noexcept {
    return *static_cast<CongestionControl*>(self);
  }
  static const CongestionControl& of(const void* self) noexcept {
    return *static_cast<const CongestionControl*>(self);
  }
  static void put(const SendLimits& limits, spindrift_plugin_limits* out) noexcept {
    out->window_bytes = limits.window_bytes;
    out->credit_bytes = limits.credit_bytes;
    out->pacing_rate_bps = limits.pacing_rate.bits_per_second();
    out->timer_ns = limits.timer.time_since_epoch().count();
  }
  static void* make(const void* context, const spindrift_plugin_flow* given, const double* values,
                    std::size_t value_count) noexcept {
    const auto& info = *static_cast<const CcInfo*>(context);
    const spindrift_plugin_flow flow = known_part(given);
    try {
      return info
          .create({.now = time_of(flow.now_ns),
                   .base_rtt = Duration(flow.base_rtt_ns),
                   .host_latency = Duration(flow.host_latency_ns),
                   .link_rate = Rate::bits_per_second(flow.link_rate_bps),
                   .mtu_bytes = flow.mtu_bytes,
                   .max_window_bytes = flow.max_window_bytes},
                  {values, value_count})
          .release();
    } catch (...) {
      return nullptr;
    }
  }
  static void destroy(void* self) noexcept { delete static_cast<CongestionControl*>(self); }
  static void initial(const void* self, spindrift_plugin_limits* limits) noexcept {
    put(of(self).initial(), limits);
  }
  static void on_ack(void* self, const spindrift_plugin_ack* given,
                     spindrift_plugin_limits* limits) noexcept {
    const spindrift_plugin_ack ack = known_part(given);
    constexpr std::size_t kMaxHops = 16;
    std::array<HopTelemetry, kMaxHops> hops{};
    const std::size_t hop_count = std::min(ack.hop_count, kMaxHops);
    for (std::size_t i = 0; i < hop_count; ++i) {
      hops[i] = {.tx_bytes = ack.hops[i].tx_bytes,
                 .timestamp_ns = ack.hops[i].timestamp_ns,
                 .queue_bytes = ack.hops[i].queue_bytes,
                 .link_id = ack.hops[i].link_id,
                 .link_rate = Rate::bits_per_second(ack.hops[i].link_rate_bps)};
    }
    put(of(self).on_ack({.now = time_of(ack.now_ns),
                         .sent_time = time_of(ack.sent_time_ns),
                         .rtt = Duration(ack.rtt_ns),
                         .acked_bytes = ack.acked_bytes,
                         .received_bytes = ack.received_bytes,
                         .in_flight_bytes = ack.in_flight_bytes,
                         .acked_packets = ack.acked_packets,
                         .out_of_order_packets = ack.out_of_order_packets,
                         .receiver_penalty = ack.receiver_penalty,
                         .restores_window = ack.restores_window != 0,
                         .is_marked = ack.is_marked != 0,
                         .delivery = {.delivered_bytes = ack.delivered_bytes,
                                      .interval = Duration(ack.delivery_interval_ns),
                                      .is_app_limited = ack.is_app_limited != 0},
                         .telemetry = {hops.data(), hop_count}}),
        limits);
  }
  static void on_loss(void* self, const spindrift_plugin_loss* given,
                      spindrift_plugin_limits* limits) noexcept {
    const spindrift_plugin_loss loss = known_part(given);
    put(of(self).on_loss({.now = time_of(loss.now_ns),
                          .newest_sent_time = time_of(loss.newest_sent_time_ns),
                          .lost_bytes = loss.lost_bytes,
                          .in_flight_bytes = loss.in_flight_bytes,
                          .lost_packets = loss.lost_packets,
                          .cause = static_cast<LossCause>(loss.cause)}),
        limits);
  }
  static void on_signal(void* self, const spindrift_plugin_signal* given,
                        spindrift_plugin_limits* limits) noexcept {
    const spindrift_plugin_signal one = known_part(given);
    Signal signal;
    switch (one.kind) {
      case SPINDRIFT_PLUGIN_SIGNAL_CONGESTION_NOTIFICATION:
        signal = CongestionNotification{};
        break;
      case SPINDRIFT_PLUGIN_SIGNAL_CREDIT_GRANTED:
        signal = CreditGranted{one.bytes};
        break;
      case SPINDRIFT_PLUGIN_SIGNAL_TIMER_FIRED:
        signal = TimerFired{};
        break;
      case SPINDRIFT_PLUGIN_SIGNAL_PATH_CHANGED:
        signal = PathChanged{Duration(one.base_rtt_ns), Rate::bits_per_second(one.link_rate_bps)};
        break;
      case SPINDRIFT_PLUGIN_SIGNAL_LOSS_WAS_SPURIOUS:
        signal = LossWasSpurious{one.bytes};
        break;
      default:
        return;
    }
    put(of(self).on_signal(time_of(one.now_ns), signal), limits);
  }
  static void describe(const void* self, spindrift_plugin_field field, void* writer) noexcept {
    FieldWriter out(field, writer);
    of(self).describe(out);
  }
};

// The same for a PathSelector.
struct PathFunctions {
  static PathSelector& of(void* self) noexcept { return *static_cast<PathSelector*>(self); }
  static void* make(const void* context, std::uint32_t path_count, std::uint64_t seed) noexcept {
    try {
      return static_cast<const PathSelectorInfo*>(context)->create(path_count, seed).release();
    } catch (...) {
      return nullptr;
    }
  }
  static void destroy(void* self) noexcept { delete static_cast<PathSelector*>(self); }
  static void pick(void* self, std::uint16_t* paths, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      PathId path{};
      of(self).pick({&path, 1});
      paths[i] = path.value;
    }
  }
  static void on_feedback(void* self, const spindrift_plugin_feedback* given,
                          std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const PathFeedback one{.path = PathId{given[i].path},
                             .outcome = static_cast<PathOutcome>(given[i].outcome),
                             .packets = given[i].packets,
                             .rtt = Duration(given[i].rtt_ns)};
      of(self).on_feedback({&one, 1});
    }
  }
  static void describe(const void* self, spindrift_plugin_field field, void* writer) noexcept {
    FieldWriter out(field, writer);
    static_cast<const PathSelector*>(self)->describe(out);
  }
};

// Builds the table from the infos of the authors, which must live as long as it.
class Table {
 public:
  template <class... Infos>
  explicit Table(const Infos&... infos) {
    (add(infos), ...);
    table_ = {.struct_size = sizeof(table_),
              .version = SPINDRIFT_PLUGIN_VERSION,
              .congestion_control_count = static_cast<std::uint32_t>(cc_pointers_.size()),
              .congestion_controls = cc_pointers_.data(),
              .path_selectors = path_pointers_.data(),
              .path_selector_count = static_cast<std::uint32_t>(path_pointers_.size())};
  }
  const spindrift_plugin_table* get() const { return &table_; }

 private:
  void add(const CcInfo& info) {
    auto& parameters = parameters_.emplace_back();
    for (const ParameterInfo& one : info.parameters) {
      parameters.push_back({.name = text(one.name),
                            .unit = text(one.unit),
                            .default_value = one.default_value,
                            .min = one.min,
                            .max = one.max,
                            .help = text(one.help),
                            .source = text(one.source)});
    }
    const CcTraits& traits = info.traits;
    const int bits = (traits.needs_ecn ? SPINDRIFT_PLUGIN_NEEDS_ECN : 0) |
                     (traits.needs_telemetry ? SPINDRIFT_PLUGIN_NEEDS_TELEMETRY : 0) |
                     (traits.needs_cnp ? SPINDRIFT_PLUGIN_NEEDS_CNP : 0) |
                     (traits.is_receiver_driven ? SPINDRIFT_PLUGIN_IS_RECEIVER_DRIVEN : 0);
    ccs_.push_back({.struct_size = sizeof(spindrift_plugin_cc),
                    .name = text(info.name),
                    .summary = text(info.summary),
                    .traits = static_cast<std::uint32_t>(bits),
                    .parameter_count = static_cast<std::uint32_t>(parameters.size()),
                    .parameters = parameters.data(),
                    .context = &info,
                    .make = &CcFunctions::make,
                    .destroy = &CcFunctions::destroy,
                    .initial = &CcFunctions::initial,
                    .on_ack = &CcFunctions::on_ack,
                    .on_loss = &CcFunctions::on_loss,
                    .on_signal = &CcFunctions::on_signal,
                    .describe = &CcFunctions::describe});
    cc_pointers_.push_back(&ccs_.back());
  }
  void add(const PathSelectorInfo& info) {
    paths_.push_back({.struct_size = sizeof(spindrift_plugin_path_selector),
                      .name = text(info.name),
                      .summary = text(info.summary),
                      .context = &info,
                      .make = &PathFunctions::make,
                      .destroy = &PathFunctions::destroy,
                      .pick = &PathFunctions::pick,
                      .on_feedback = &PathFunctions::on_feedback,
                      .describe = &PathFunctions::describe});
    path_pointers_.push_back(&paths_.back());
  }
  const char* text(std::string_view view) { return texts_.emplace_back(view).c_str(); }

  std::deque<std::string> texts_;  // deques: what was added stays where it is
  std::deque<std::vector<spindrift_plugin_parameter>> parameters_;
  std::deque<spindrift_plugin_cc> ccs_;
  std::deque<spindrift_plugin_path_selector> paths_;
  std::vector<const spindrift_plugin_cc*> cc_pointers_;
  std::vector<const spindrift_plugin_path_selector*> path_pointers_;
  spindrift_plugin_table table_{};
};

}  // namespace spindrift::plugin_adapter

// In one file of the shared object.
#define SPINDRIFT_PLUGIN(...)                                                              \
  extern "C" SPINDRIFT_PLUGIN_EXPORT const spindrift_plugin_table* spindrift_plugin_v1() { \
    try {                                                                                  \
      static const ::spindrift::plugin_adapter::Table table(__VA_ARGS__);                  \
      return table.get();                                                                  \
    } catch (...) {                                                                        \
      return nullptr;                                                                      \
    }                                                                                      \
  }
