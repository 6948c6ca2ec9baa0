#pragma once
// A congestion control algorithm is a function from events to SendLimits.
// It never sees packets, sockets, clocks or other flows.
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "spindrift/stats.h"
#include "spindrift/telemetry.h"
#include "spindrift/types.h"

namespace spindrift {

// All that the sender needs to know. The caller keeps the last value returned, so the transmit
// path reads four words and makes no call.
struct SendLimits {
  std::uint64_t window_bytes = kNoLimit;  // cap on bytes in flight
  std::uint64_t credit_bytes = kNoLimit;  // cap on bytes ever sent (receiver-driven schemes)
  Rate pacing_rate{};                     // zero: unpaced
  Time timer = kNever;                    // when on_signal(TimerFired) is due
  bool operator==(const SendLimits&) const = default;
};

// Measured once by the transport, shared by every algorithm.
struct DeliverySample {
  std::uint64_t delivered_bytes = 0;  // over `interval`
  Duration interval{};                // zero: no sample
  bool is_app_limited = false;
};

// One event per acknowledgement. Byte counts are payload plus headers up to the IP payload, the
// same at both ends ("nominal packet size").
struct AckEvent {
  Time now{};
  Time sent_time{};               // of the packet that triggered the acknowledgement
  Duration rtt{};                 // minus the receiver's service time; zero: no valid sample
  std::uint64_t acked_bytes = 0;  // newly known to have arrived, by our own sent log
  // Newly received as the receiver counts it (256-byte units). May run ahead of acked_bytes.
  std::uint64_t received_bytes = 0;
  std::uint64_t in_flight_bytes = 0;  // after this acknowledgement
  std::uint32_t acked_packets = 0;
  std::uint32_t out_of_order_packets = 0;  // waiting at the receiver
  std::uint8_t receiver_penalty = 0;       // rcv_cwnd_pend, 0..127
  bool restores_window = false;            // restore_cwnd
  bool is_marked = false;                  // the triggering packet carried ECN CE
  DeliverySample delivery{};
  std::span<const HopTelemetry> telemetry{};  // of the triggering packet; where it is carried
};

enum class LossCause : std::uint8_t { kReordered, kTrimmed, kTrimmedLastHop, kTimeout };

struct LossEvent {
  Time now{};
  Time newest_sent_time{};
  std::uint64_t lost_bytes = 0;
  std::uint64_t in_flight_bytes = 0;  // after these bytes were taken out
  std::uint32_t lost_packets = 0;
  LossCause cause = LossCause::kReordered;
};

// Rare events. Adding one does not change the interface.
struct CongestionNotification {};  // RoCE CNP, or a mark after >= 50 us without one (needs_cnp)
struct CreditGranted {
  std::uint64_t credit_bytes;  // cumulative
};
struct TimerFired {};
struct PathChanged {
  Duration base_rtt;
  Rate link_rate;
};
// A reported loss that was no congestion: the bytes died on a path that has proved dark while most
// others deliver. (Not told of late arrivals: what they give back hurts where a path is slow.)
struct LossWasSpurious {
  std::uint64_t bytes;
};
using Signal =
    std::variant<CongestionNotification, CreditGranted, TimerFired, PathChanged, LossWasSpurious>;

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  // What may be sent before the first event.
  [[nodiscard]] virtual SendLimits initial() const = 0;
  [[nodiscard]] virtual SendLimits on_ack(const AckEvent& event) = 0;
  [[nodiscard]] virtual SendLimits on_loss(const LossEvent& event) = 0;
  [[nodiscard]] virtual SendLimits on_signal(Time now, const Signal& signal) = 0;
  virtual void describe(StateWriter& out) const = 0;
};

// What the transport knows of the network when a flow starts.
struct FlowInfo {
  Time now{};
  Duration base_rtt{};             // measured by the handshake, or configured
  Duration host_latency{};         // of an RTT, what the hosts themselves may add (PacketIoCaps)
  Rate link_rate{};                // of the slower side
  std::uint32_t mtu_bytes = 4096;  // largest nominal packet
  std::uint64_t max_window_bytes = kNoLimit;  // what the receiver's buffers allow
};

// What an algorithm needs from the transport and the network.
struct CcTraits {
  bool needs_ecn = false;
  bool needs_telemetry = false;
  bool needs_cnp = false;  // marks arrive thinned, as CongestionNotification
  bool is_receiver_driven = false;
};

// A named, bounded number that the user may set ("nscc:target_qdelay_us=30").
struct ParameterInfo {
  std::string_view name;
  std::string_view unit;
  double default_value = 0;
  double min = 0;
  double max = 0;
  std::string_view help;    // one sentence
  std::string_view source;  // paper, specification section, or "measured"
};

// Values that belong together and go by a name ("dcqcn:set=mlx5"). Single parameters given beside
// it come last.
struct ParameterSet {
  std::string_view name;
  std::string_view summary;          // what it stands for
  std::span<const double> values{};  // parallel to CcInfo::parameters
  std::string_view source;
};

// How an algorithm enters the registry. `values` run parallel to `parameters`, already checked
// against their bounds. A parameter that means "derive it from FlowInfo" uses 0 for that.
struct CcInfo {
  std::string_view name;
  std::string_view summary;
  CcTraits traits{};
  std::span<const ParameterInfo> parameters{};
  std::span<const ParameterSet> sets{};  // may be none; the defaults are the first
  std::unique_ptr<CongestionControl> (*make)(const FlowInfo& flow,
                                             std::span<const double> values) = nullptr;
  // Instead of `make` where a plain function cannot know enough (plug-ins): gets `origin`, which
  // lives as long as the process. Null when the plug-in could not make an instance; the connection
  // then fails.
  std::unique_ptr<CongestionControl> (*make_from)(const void* origin, const FlowInfo& flow,
                                                  std::span<const double> values) = nullptr;
  const void* origin = nullptr;

  std::unique_ptr<CongestionControl> create(const FlowInfo& flow,
                                            std::span<const double> values) const {
    return make_from != nullptr ? make_from(origin, flow, values) : make(flow, values);
  }
};

}  // namespace spindrift
