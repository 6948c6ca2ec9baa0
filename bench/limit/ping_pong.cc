#include "bench/limit/ping_pong.h"

#include <algorithm>
#include <cstddef>

#include <sys/socket.h>

namespace spindrift::limit {
namespace {

constexpr double kResendSeconds = 0.1;
constexpr double kPatienceSeconds = 5;

class Pinger {
 public:
  Pinger(const TestPlan& plan, int out, int in) : plan_(plan), out_(out), in_(in) {
    const std::uint64_t most = std::uint64_t{plan.duration_ms} * 1000;  // a round trip takes 1 us
    half_trips_us_.reserve(std::min<std::uint64_t>(most, 10'000'000));
  }

  // False: no answer comes.
  bool run() {
    double now = seconds_now();
    const double begin = now + plan_.warmup_ms / 1e3;
    const double end = begin + plan_.duration_ms / 1e3;
    const double cpu_before = cpu_seconds();
    while (now < end && half_trips_us_.size() < half_trips_us_.capacity()) {
      const double start = now;
      if (!round_trip(start)) return false;
      now = seconds_now();
      if (start >= begin) half_trips_us_.push_back((now - start) * 1e6 / 2);
    }
    cpu_seconds_ = cpu_seconds() - cpu_before;
    return !half_trips_us_.empty();
  }

  nlohmann::json result() {
    std::sort(half_trips_us_.begin(), half_trips_us_.end());
    return {{"round_trips", half_trips_us_.size()},
            {"min_us", half_trips_us_.front()},
            {"p50_us", at(0.5)},
            {"p99_us", at(0.99)},
            {"p999_us", at(0.999)},
            {"resent", resent_}};
  }

 private:
  bool round_trip(double start) {
    static_cast<void>(send(out_, buffer_.data(), plan_.packet_bytes, 0));
    double sent_at = start;
    for (std::uint32_t polls = 1; recv(in_, buffer_.data(), buffer_.size(), 0) < 0; ++polls) {
      if (polls % 4096 != 0) continue;
      const double now = seconds_now();
      if (now - start > kPatienceSeconds) return false;
      if (now - sent_at < kResendSeconds) continue;
      static_cast<void>(send(out_, buffer_.data(), plan_.packet_bytes, 0));
      sent_at = now;
      ++resent_;
    }
    return true;
  }
  double at(double share) const {
    return half_trips_us_[static_cast<std::size_t>(share *
                                                   static_cast<double>(half_trips_us_.size() - 1))];
  }

  const TestPlan& plan_;
  int out_;
  int in_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(65536);
  std::vector<double> half_trips_us_;
  std::uint64_t resent_ = 0;
  double cpu_seconds_ = 0;
};

// Sockets of one side, towards a port of the other.
struct Pair {
  UniqueFd in{};
  UniqueFd out{};
};

Status join(Talk& talk, Pair* pair, std::uint16_t port) {
  NetAddress to = talk.remote();
  to.port = port;
  auto senders = open_senders(talk.local(), to, 1, 0);
  if (!senders.ok()) return senders.error();
  pair->out = std::move(senders.value().front());
  return ok_status();
}

}  // namespace

Result<nlohmann::json> ping(Talk& talk, const TestPlan& plan) {
  Pair pair;
  auto in = open_receiver(talk.local());
  if (!in.ok()) return in.error();
  pair.in = std::move(in.value());
  Status told =
      talk.send({{"plan", to_json(plan)}, {"reply_port", local_address_of(pair.in.get()).port}});
  if (!told.ok()) return told.error();
  const auto ready = talk.receive();
  if (!ready.ok()) return ready.error();
  Status joined = join(talk, &pair, ready.value().value("port", std::uint16_t{0}));
  if (!joined.ok()) return joined.error();
  Pinger pinger(plan, pair.out.get(), pair.in.get());
  const bool is_answered = pinger.run();
  Status ended = talk.send({{"over", true}});
  if (!is_answered)
    return Error(ErrorCode::kTimedOut,
                 "no answer came for 5 s; is UDP let through between the two?");
  if (!ended.ok()) return ended.error();
  return pinger.result();
}

Status pong(Talk& talk, const TestPlan& plan, std::uint16_t reply_port) {
  Pair pair;
  auto in = open_receiver(talk.local());
  if (!in.ok()) return in.error();
  pair.in = std::move(in.value());
  Status joined = join(talk, &pair, reply_port);
  if (!joined.ok()) return joined;
  Status told = talk.send({{"port", local_address_of(pair.in.get()).port}});
  if (!told.ok()) return told;
  std::vector<std::byte> buffer(65536);
  for (std::uint32_t polls = 1; polls % 4096 != 0 || !talk.has_news(); ++polls) {
    if (recv(pair.in.get(), buffer.data(), buffer.size(), 0) > 0) {
      static_cast<void>(send(pair.out.get(), buffer.data(), plan.packet_bytes, 0));
      polls = 0;
    }
  }
  return ok_status();
}

}  // namespace spindrift::limit
