#pragma once
// Shares a host's link among the senders that want to send to it: grants of credit, no faster than
// the link, in turns (uet.md B.3). Knows no connection, only sources: small numbers. Bytes are
// nominal packet sizes, cumulative per source.
//
// Who wants credit is served first. Where nobody does, senders that wanted some before are filled
// up with spare credit, so that they need not ask when they send again.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "spindrift/types.h"

#include "transport/base/ring.h"

namespace spindrift {

class CreditPacer {
 public:
  // A little slower than the link, so that the queue before it drains. uet-htsim takes 990; what
  // requests and trimmed packets add to the link leaves room for this.
  static constexpr std::uint64_t kLinkPermille = 992;

  explicit CreditPacer(std::uint32_t sources)
      : sources_(sources), wanting_(sources), sated_(sources) {}

  void set_link_rate(Rate rate) { ps_per_kib_ = rate.picoseconds_for(1024) * 1000 / kLinkPermille; }

  struct Terms {
    std::uint64_t grant_bytes = 0;  // at a time
    std::uint64_t spare_bytes = 0;  // beyond what is wanted, while the link is idle
  };
  void open(std::uint32_t source, const Terms& terms) {
    Source& s = sources_[source];
    s.terms = terms;
    s.granted = 0;
    s.wanted = 0;
    s.is_open = true;
  }
  void close(std::uint32_t source) { sources_[source].is_open = false; }

  // The sender asks for `total_bytes` of credit in all, from the beginning on.
  void want(std::uint32_t source, std::uint64_t total_bytes) {
    Source& s = sources_[source];
    if (!s.is_open) return;
    s.wanted = std::max(s.wanted, total_bytes);
    enqueue(source);
  }
  std::uint64_t granted_bytes(std::uint32_t source) const { return sources_[source].granted; }

  // When the next grant is due; kNever: nobody is to have one.
  Time next() const {
    if (wanting_.is_empty() && sated_.is_empty()) return kNever;
    return Time(Duration(static_cast<std::int64_t>((next_ps_ + 999) / 1000)));
  }

  // All that is due; `granted(source)` hears of each.
  template <class Granted>
  void run(Time now, Granted&& granted) {
    const auto now_ps = static_cast<std::uint64_t>(now.time_since_epoch().count()) * 1000;
    const std::uint64_t catch_up_ps = is_idle_ ? 0 : std::min(kCatchUpPs, now_ps);
    next_ps_ = std::max(next_ps_, now_ps - catch_up_ps);
    is_idle_ = false;
    while (next_ps_ <= now_ps) {
      const bool is_wanted = !wanting_.is_empty();
      if (!is_wanted && sated_.is_empty()) {
        is_idle_ = true;
        return;
      }
      Ring<std::uint32_t>& ring = is_wanted ? wanting_ : sated_;
      const std::uint32_t source = ring.front();
      ring.pop_front();
      Source& s = sources_[source];
      (is_wanted ? s.is_wanting : s.is_sated) = false;
      const std::uint64_t bytes =
          s.is_open ? std::min(s.terms.grant_bytes, is_wanted ? s.missing() : s.room()) : 0;
      if (bytes == 0) continue;
      s.granted += bytes;
      next_ps_ += bytes * ps_per_kib_ / 1024;
      enqueue(source);
      granted(source);
    }
  }

 private:
  // A thread that was held up grants what it missed, but not much of it at once.
  static constexpr std::uint64_t kCatchUpPs = 50'000'000;

  struct Source {
    Terms terms{};
    std::uint64_t granted = 0;
    std::uint64_t wanted = 0;
    bool is_open = false;
    bool is_wanting = false;  // stands in the ring of that name
    bool is_sated = false;

    std::uint64_t missing() const { return wanted > granted ? wanted - granted : 0; }
    std::uint64_t room() const {
      const std::uint64_t most = wanted + terms.spare_bytes;
      return most > granted ? most - granted : 0;
    }
  };

  void enqueue(std::uint32_t source) {
    Source& s = sources_[source];
    if (s.missing() > 0) {
      if (!s.is_wanting) wanting_.push_back(source);
      s.is_wanting = true;
    } else if (s.room() > 0) {
      if (!s.is_sated) sated_.push_back(source);
      s.is_sated = true;
    }
  }

  std::vector<Source> sources_;
  Ring<std::uint32_t> wanting_;
  Ring<std::uint32_t> sated_;
  std::uint64_t ps_per_kib_ = 0;
  std::uint64_t next_ps_ = 0;
  bool is_idle_ = true;
};

}  // namespace spindrift
