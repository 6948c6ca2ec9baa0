// A plug-in that offers several parts, as its author would write them.
#include "spindrift/plugin_adapter.h"

namespace {

using namespace spindrift;

class Steady final : public CongestionControl {
 public:
  Steady(const FlowInfo& flow, double packets)
      : window_bytes_(static_cast<std::uint64_t>(packets) * flow.mtu_bytes),
        mtu_bytes_(flow.mtu_bytes) {}
  SendLimits initial() const override { return {.window_bytes = window_bytes_}; }
  SendLimits on_ack(const AckEvent& event) override {
    acked_packets_ += event.acked_packets;
    return initial();
  }
  SendLimits on_loss(const LossEvent& event) override {
    lost_packets_ += event.lost_packets;
    return initial();
  }
  SendLimits on_signal(Time /*now*/, const Signal& /*signal*/) override { return initial(); }
  void describe(StateWriter& out) const override {
    out.field("steady_packets", static_cast<double>(window_bytes_ / mtu_bytes_));
    out.field("steady_acked", acked_packets_);
    out.field("steady_lost", lost_packets_);
  }

 private:
  std::uint64_t window_bytes_;
  std::uint64_t mtu_bytes_;
  double acked_packets_ = 0;
  double lost_packets_ = 0;
};

constexpr ParameterInfo kParameters[] = {{.name = "packets",
                                          .unit = "packets",
                                          .default_value = 8,
                                          .min = 1,
                                          .max = 100,
                                          .help = "window",
                                          .source = "measured"}};

const CcInfo kSteady{
    .name = "steady",
    .summary = "a window that stays",
    .parameters = kParameters,
    .make = [](const FlowInfo& flow,
               std::span<const double> values) -> std::unique_ptr<CongestionControl> {
      return std::make_unique<Steady>(flow, values[0]);
    }};
const CcInfo kTwo{
    .name = "two",
    .summary = "two packets in flight",
    .make = [](const FlowInfo& flow, std::span<const double> /*values*/)
        -> std::unique_ptr<CongestionControl> { return std::make_unique<Steady>(flow, 2); }};

// Even paths only.
class Evens final : public PathSelector {
 public:
  explicit Evens(std::uint32_t path_count) : path_count_(path_count) {}
  void pick(std::span<PathId> out) override {
    for (PathId& path : out) {
      path.value = static_cast<std::uint16_t>(next_);
      next_ = (next_ + 2) % path_count_;
    }
  }
  void on_feedback(std::span<const PathFeedback> feedback) override {
    for (const PathFeedback& one : feedback)
      told_packets_ += one.packets;
  }
  void describe(StateWriter& out) const override { out.field("evens_told", told_packets_); }

 private:
  std::uint32_t path_count_;
  std::uint32_t next_ = 0;
  double told_packets_ = 0;
};

const PathSelectorInfo kEvens{
    .name = "evens",
    .summary = "even paths only",
    .make = [](std::uint32_t path_count, std::uint64_t /*seed*/) -> std::unique_ptr<PathSelector> {
      return std::make_unique<Evens>(path_count);
    }};

}  // namespace

SPINDRIFT_PLUGIN(kSteady, kTwo, kEvens)
