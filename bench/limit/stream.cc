#include "bench/limit/stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include <sys/socket.h>

namespace spindrift::limit {
namespace {

constexpr std::size_t kBufferBytes = 65536;
constexpr double kPatienceSeconds = 5;
// The window stays shut this long only when data was dropped; then all that was under way is
// forgotten.
constexpr double kStallSeconds = 0.05;

// The buffers of one side, taken in turn.
class Buffers {
 public:
  explicit Buffers(std::uint64_t bytes) : memory_(bytes, std::byte{7}) {}
  std::byte* next() {
    at_ = at_ + kBufferBytes < memory_.size() ? at_ + kBufferBytes : 0;
    return memory_.data() + at_;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t at_ = 0;
};

class Sender {
 public:
  Sender(Talk& talk, const TestPlan& plan, UniqueFd credit, std::vector<UniqueFd> sockets)
      : talk_(talk),
        plan_(plan),
        credit_(std::move(credit)),
        sockets_(std::move(sockets)),
        buffers_(plan.memory_bytes) {}

  [[nodiscard]] Status run() {
    const std::uint64_t bytes = std::uint64_t{plan_.packets_per_super} * plan_.packet_bytes;
    const std::uint64_t window = std::max(plan_.window_bytes, bytes);
    for (std::uint32_t turn = 1;; ++turn) {
      if (turn % 64 == 0 && talk_.has_news()) return ok_status();
      while (sent_ + bytes > confirmed_ + window) {
        if (!await_credit()) return ok_status();
      }
      const int fd = sockets_[turn % sockets_.size()].get();
      const ssize_t done = send(fd, buffers_.next(), bytes, 0);
      const int error = done < 0 ? errno : 0;
      if (error == 0) {
        sent_ += bytes;
      } else if (error == ECONNREFUSED && talk_.has_news()) {
        return ok_status();  // the receiver has its result, and has closed its socket
      } else if (error != EAGAIN && error != ENOBUFS) {
        return Error(ErrorCode::kIo, "sending packets of " + std::to_string(plan_.packet_bytes) +
                                         " B failed: " + std::generic_category().message(error) +
                                         "; does the path's MTU carry them?");
      }
    }
  }
  std::uint64_t sent_bytes() const { return sent_; }
  std::uint64_t stalls() const { return stalls_; }

 private:
  // False: the receiver has ended the test.
  bool await_credit() {
    double shut_since = 0;
    for (std::uint32_t polls = 1;; ++polls) {
      std::uint64_t arrived = 0;
      if (recv(credit_.get(), &arrived, sizeof arrived, 0) == sizeof arrived) {
        confirmed_ = std::max(confirmed_, arrived + forgotten_);
        return true;
      }
      if (polls % 1024 != 0) continue;
      if (talk_.has_news()) return false;
      if (shut_since == 0) shut_since = seconds_now();
      if (seconds_now() - shut_since < kStallSeconds) continue;
      forgotten_ += sent_ - confirmed_;
      confirmed_ = sent_;
      ++stalls_;
      return true;
    }
  }

  Talk& talk_;
  const TestPlan& plan_;
  UniqueFd credit_;
  std::vector<UniqueFd> sockets_;
  Buffers buffers_;
  std::uint64_t sent_ = 0;
  std::uint64_t confirmed_ = 0;  // arrived, or given up
  std::uint64_t forgotten_ = 0;
  std::uint64_t stalls_ = 0;
};

class Receiver {
 public:
  Receiver(const TestPlan& plan, const UniqueFd& data, const UniqueFd& credit)
      : plan_(plan), data_(data.get()), credit_(credit.get()), buffers_(plan.memory_bytes) {}

  // False: nothing came.
  bool run() {
    double last = seconds_now();
    const double cpu_before = cpu_seconds();
    while (!is_over_) {
      const std::uint64_t bytes = take_in();
      const double now = seconds_now();
      if (bytes > 0) {
        last = now;
        note(bytes, now);
      } else if (now - last > kPatienceSeconds) {
        return false;
      }
    }
    cpu_seconds_ = cpu_seconds() - cpu_before;
    return true;
  }

  nlohmann::json result() const {
    const auto packets = static_cast<double>(measured_bytes_) / plan_.packet_bytes;
    const double payload = packets * plan_.payload_bytes;
    return {{"seconds", measured_seconds_},
            {"payload_bytes", payload},
            {"gb_per_s", payload / measured_seconds_ / 1e9},
            {"packets_per_s", packets / measured_seconds_},
            {"bytes_per_receive", arrived_ / std::max<std::uint64_t>(1, receives_)},
            {"kernel_drops", dropped_by_kernel(data_)},
            {"receiver_cpu_s_per_gb", cpu_seconds_ * 1e9 * plan_.packet_bytes /
                                          (static_cast<double>(arrived_) * plan_.payload_bytes)}};
  }

 private:
  std::uint64_t take_in() {
    alignas(cmsghdr) std::array<char, 128> control{};
    iovec piece{.iov_base = buffers_.next(), .iov_len = kBufferBytes};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t bytes = recvmsg(data_, &message, 0);
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }

  void note(std::uint64_t bytes, double now) {
    ++receives_;
    arrived_ += bytes;
    if (begin_ == 0) begin_ = now + plan_.warmup_ms / 1e3;
    if (now >= begin_ && !is_measuring_) {
      is_measuring_ = true;
      begin_ = now;
      bytes_before_ = arrived_;
    }
    if (is_measuring_ && now >= begin_ + plan_.duration_ms / 1e3) {
      measured_bytes_ = arrived_ - bytes_before_;
      measured_seconds_ = now - begin_;
      is_over_ = true;
    }
    if (arrived_ - told_ < plan_.window_bytes / 4) return;
    told_ = arrived_;
    static_cast<void>(send(credit_, &arrived_, sizeof arrived_, 0));
  }

  const TestPlan& plan_;
  int data_;
  int credit_;
  Buffers buffers_;
  std::uint64_t arrived_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t receives_ = 0;
  double begin_ = 0;  // of the warm-up's end, or of the measurement
  bool is_measuring_ = false;
  bool is_over_ = false;
  std::uint64_t bytes_before_ = 0;
  std::uint64_t measured_bytes_ = 0;
  double measured_seconds_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace

Result<nlohmann::json> send_stream(Talk& talk, const TestPlan& plan) {
  auto credit = open_receiver(talk.local());
  if (!credit.ok()) return credit.error();
  Status told = talk.send(
      {{"plan", to_json(plan)}, {"reply_port", local_address_of(credit.value().get()).port}});
  if (!told.ok()) return told.error();
  const auto ready = talk.receive();
  if (!ready.ok()) return ready.error();
  NetAddress to = talk.remote();
  to.port = ready.value().value("port", std::uint16_t{0});
  TestPlan granted = plan;
  granted.window_bytes = ready.value().value("window_bytes", plan.window_bytes);
  const std::uint32_t segment_bytes = plan.packets_per_super > 1 ? plan.packet_bytes : 0;
  auto sockets = open_senders(talk.local(), to, plan.sockets, segment_bytes);
  if (!sockets.ok()) return sockets.error();
  Sender sender(talk, granted, std::move(credit.value()), std::move(sockets.value()));
  const double cpu_before = cpu_seconds();
  Status sent = sender.run();
  if (!sent.ok()) return sent.error();
  const double payload = static_cast<double>(sender.sent_bytes()) *
                         static_cast<double>(plan.payload_bytes) / plan.packet_bytes;
  const double cpu = (cpu_seconds() - cpu_before) * 1e9 / payload;
  auto result = talk.receive();
  if (!result.ok()) return result;
  nlohmann::json& object = result.value();
  object["stalls"] = sender.stalls();
  object["window_bytes"] = granted.window_bytes;
  object["sender_cpu_s_per_gb"] = cpu;
  object["cpu_s_per_gb"] = cpu + object.value("receiver_cpu_s_per_gb", 0.0);
  return result;
}

Status receive_stream(Talk& talk, const TestPlan& plan, std::uint16_t reply_port) {
  auto data = open_receiver(talk.local());
  if (!data.ok()) return data.error();
  NetAddress to = talk.remote();
  to.port = reply_port;
  auto credit = open_senders(talk.local(), to, 1, 0);
  if (!credit.ok()) return credit.error();
  TestPlan granted = plan;
  granted.window_bytes = std::min(plan.window_bytes, receive_room(data.value().get()));
  Status told = talk.send({{"port", local_address_of(data.value().get()).port},
                           {"window_bytes", granted.window_bytes}});
  if (!told.ok()) return told;
  Receiver receiver(granted, data.value(), credit.value().front());
  if (!receiver.run())
    return Error(ErrorCode::kTimedOut, "nothing came for 5 s; is UDP let through between the two?");
  return talk.send(receiver.result());
}

}  // namespace spindrift::limit
