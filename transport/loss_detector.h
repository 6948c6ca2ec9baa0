#pragma once
// Which packets are lost:
//  * by order of arrival: what the connection's rule (loss_rules.h) makes of an acknowledgement;
//  * by time: a packet sent later (on any path) arrived and the rule's patience is at an end;
//  * by probe: the answer to a probe sent well after the packet says that it is missing.
// A timeout alone loses nothing: when nothing at all is heard, the peer (or this host) has most
// likely been held up, and sending everything again would only add to it. Timeouts send probes;
// what their answers show missing is lost. Trimmed packets are told from outside.
#include "transport/engine_context.h"

namespace spindrift {

// What one acknowledgement says about arrival.
struct AckView {
  Psn cumulative{};
  Psn sack_base{};
  std::uint64_t sack_bitmap = 0;
  bool says_missing(Psn psn) const {
    if (psn.value == cumulative.value + 1) return true;
    const std::uint64_t at = psn.value - sack_base.value;
    return at < 64 && ((sack_bitmap >> at) & 1) == 0;
  }
};

// Collects what one event declared lost, for one report to the flow and the paths.
class LossReport {
 public:
  LossReport(EngineContext& ctx, Connection& c, LossCause cause, Time now)
      : ctx_(ctx), c_(c), now_(now) {
    event_.now = now;
    event_.cause = cause;
  }
  LossReport(const LossReport&) = delete;
  LossReport& operator=(const LossReport&) = delete;
  // Tells the flow.
  ~LossReport();
  // `unit` is in flight. It will be sent again.
  void lose(SentUnit& unit);
  // What the path's policy hears of it.
  void blame(PathId path, PathOutcome outcome, std::uint32_t packets);

 private:
  EngineContext& ctx_;
  Connection& c_;
  Time now_;
  LossEvent event_{};
  std::uint64_t dark_bytes_ = 0;  // lost on paths that have just proved dark
};

// Judges all paths by time and sets LossState::next_check.
void judge_by_time(EngineContext& ctx, Connection& c, Time now);
// The answer to a probe sent at `probe_sent`: what was sent an RTT before and is missing is lost.
void judge_by_probe(EngineContext& ctx, Connection& c, const AckView& view, Time probe_sent,
                    Time now);
// A retransmission proved needless: be more patient on this path, or in time.
void on_spurious(Connection& c, const SentUnit& unit, Time now);

Duration current_rto(const Connection& c);
// The RTT of the slowest live path, plus how much later than the newest arrival a packet may still
// come: the spread of the paths' RTTs and a quarter RTT, doubled for each time that proved too
// little.
Duration reorder_patience(const Connection& c);

}  // namespace spindrift
