#include "plugins/torch/point_to_point.h"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace spindrift::torch_plugin {
namespace {

constexpr std::uint64_t kMagic = 0x53504d5347303031;  // "SPMSG001"
// A message may be awaited for as long as the group lives; receivers have deadlines of their own.
constexpr Duration kForever = std::chrono::hours(24 * 365);
// Between two looks for senders whom nobody has met yet.
constexpr Duration kWatchPause = std::chrono::milliseconds(2);
constexpr Duration kSetupTimeout = std::chrono::minutes(30);

}  // namespace

// A call of one transfer, with the memory that it may bring.
struct PointToPoint::TransferTask final : Task {
  Transfer transfer{};
  Header header{};
  std::vector<std::byte> scratch;

  TransferTask(const char* what, std::uint32_t own, bool is_send, void* data, std::uint64_t bytes) {
    name = what;
    transfer = {.peer = 1 - own, .is_send = is_send, .data = data, .count = bytes};
    call.collective = Collective::kSendReceive;
    call.type = DataType::kUint8;
    call.transfers = std::span<const Transfer>(&transfer, 1);
  }
};

PointToPoint::PointToPoint(Store& store, PointToPointOptions options)
    : store_(store), options_(std::move(options)), watcher_([this] { watch(); }) {}

PointToPoint::~PointToPoint() {
  std::list<Receiver> waiting;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    waiting.swap(receivers_);
  }
  has_receivers_.notify_all();
  watcher_.join();
  for (const Receiver& receiver : waiting)
    receiver.done(Error(ErrorCode::kUnavailable, "the process group was destroyed"));
  // Their threads call on_header().
  for (auto& [key, channel] : channels_)
    channel.engine.reset();
}

std::string PointToPoint::channel_name(const Key& key) const {
  return absl::StrFormat("%s/p2p/%d-%d/%d", options_.name, key.from, key.to, key.tag);
}

PointToPoint::Channel& PointToPoint::channel(const Key& key) {
  Channel& channel = channels_[key];
  if (channel.engine == nullptr) {
    channel.engine =
        std::make_unique<Engine>(store_, EngineOptions{.rank = key.from == options_.rank ? 0U : 1U,
                                                       .ranks = 2,
                                                       .name = channel_name(key),
                                                       .address = options_.address,
                                                       .timeout = kSetupTimeout,
                                                       .spin = options_.spin});
  }
  return channel;
}

void PointToPoint::send(std::uint32_t to, std::uint32_t tag, const Message& message, Done done) {
  const Key key{.from = options_.rank, .to = to, .tag = tag};
  auto header = std::make_unique<TransferTask>("send", 0, true, nullptr, sizeof(Header));
  header->header = {kMagic, message.bytes};
  header->transfer.data = header->header.data();
  header->timeout = message.timeout;
  header->done = [](const Status&) {};  // the body fails for the same reason
  auto body = std::make_unique<TransferTask>("send", 0, true, message.data, message.bytes);
  body->timeout = message.timeout;
  body->done = [to, done = std::move(done)](const Status& status) {
    done(status.ok() ? Result<std::uint32_t>(to) : Result<std::uint32_t>(status.error()));
  };
  const std::lock_guard lock(mutex_);
  // For receivers that take a message from anybody.
  if (!channels_.contains(key)) (void)store_.set(channel_name(key) + "/sends", "yes");
  Engine& engine = *channel(key).engine;
  engine.submit(std::move(header));
  engine.submit(std::move(body));
}

void PointToPoint::receive(std::optional<std::uint32_t> from, std::uint32_t tag,
                           const Message& message, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (from) (void)channel({.from = *from, .to = options_.rank, .tag = tag});
    receivers_.push_back({.from = from,
                          .tag = tag,
                          .message = message,
                          .done = std::move(done),
                          .deadline = clock_now() + message.timeout});
    match();
  }
  has_receivers_.notify_all();
}

void PointToPoint::match() {
  for (auto receiver = receivers_.begin(); receiver != receivers_.end();) {
    const bool is_matched = std::any_of(channels_.begin(), channels_.end(), [&](auto& entry) {
      return match_channel(entry.first, entry.second, *receiver);
    });
    receiver = is_matched ? receivers_.erase(receiver) : std::next(receiver);
  }
}

bool PointToPoint::match_channel(const Key& key, Channel& channel, Receiver& receiver) {
  if (key.to != options_.rank || key.tag != receiver.tag) return false;
  if (receiver.from && *receiver.from != key.from) return false;
  if (channel.has_header) {
    channel.has_header = false;
    receive_body(key, channel, receiver);
    return true;
  }
  if (!channel.is_awaiting) await_header(key, channel);
  return false;
}

void PointToPoint::await_header(const Key& key, Channel& channel) {
  channel.is_awaiting = true;
  auto task =
      std::make_unique<TransferTask>("recv", 1, false, channel.header.data(), sizeof(Header));
  task->timeout = kForever;
  task->done = [this, key](const Status& status) { on_header(key, status); };
  channel.engine->submit(std::move(task));
}

void PointToPoint::on_header(const Key& key, const Status& status) {
  std::vector<Receiver> failed;
  {
    const std::lock_guard lock(mutex_);
    Channel& channel = channels_[key];
    channel.is_awaiting = false;
    channel.has_header = status.ok() && channel.header[0] == kMagic;
    if (channel.has_header) {
      match();
      return;
    }
    for (auto receiver = receivers_.begin(); receiver != receivers_.end();) {
      const bool is_hit = receiver->tag == key.tag && receiver->from.value_or(key.from) == key.from;
      if (is_hit) failed.push_back(std::move(*receiver));
      receiver = is_hit ? receivers_.erase(receiver) : std::next(receiver);
    }
  }
  const Error error =
      status.ok() ? Error(ErrorCode::kIo, "what came is no message") : status.error();
  for (const Receiver& receiver : failed) {
    receiver.done(
        Error(error.code(), absl::StrFormat("recv from rank %d: %s", key.from, error.message())));
  }
}

void PointToPoint::receive_body(const Key& key, Channel& channel, Receiver& receiver) {
  const std::uint64_t coming = channel.header[1];
  const std::uint64_t expected = receiver.message.bytes;
  const bool fits = coming == expected;
  auto task = std::make_unique<TransferTask>("recv", 1, false, receiver.message.data, coming);
  if (!fits) {
    // Taken in all the same, so that the next message is not mistaken for it.
    task->scratch.resize(coming);
    task->transfer.data = task->scratch.data();
  }
  task->timeout = std::max<Duration>(receiver.deadline - clock_now(), std::chrono::milliseconds(1));
  task->done = [key, fits, coming, expected,
                done = std::move(receiver.done)](const Status& status) {
    if (!status.ok()) return done(status.error());
    if (fits) return done(key.from);
    done(Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("rank %d sent %d bytes with tag %d, recv has room for %d; both must "
                               "be the same",
                               key.from, coming, key.tag, expected)));
  };
  channel.engine->submit(std::move(task));
}

void PointToPoint::meet_new_senders() {
  for (const Receiver& receiver : receivers_) {
    if (receiver.from) continue;
    for (std::uint32_t from = 0; from < options_.ranks; ++from) {
      const Key key{.from = from, .to = options_.rank, .tag = receiver.tag};
      if (from == options_.rank || channels_.contains(key)) continue;
      if (store_.get(channel_name(key) + "/sends", Duration::zero()).ok()) (void)channel(key);
    }
  }
  match();
}

std::vector<PointToPoint::Receiver> PointToPoint::take_late(Time now) {
  std::vector<Receiver> late;
  for (auto receiver = receivers_.begin(); receiver != receivers_.end();) {
    const bool is_late = receiver->deadline <= now;
    if (is_late) late.push_back(std::move(*receiver));
    receiver = is_late ? receivers_.erase(receiver) : std::next(receiver);
  }
  return late;
}

void PointToPoint::watch() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (receivers_.empty()) {
      has_receivers_.wait(lock);
      continue;
    }
    meet_new_senders();
    std::vector<Receiver> late = take_late(clock_now());
    lock.unlock();
    for (const Receiver& receiver : late) {
      const std::string source =
          receiver.from ? absl::StrFormat("rank %d", *receiver.from) : std::string("any rank");
      receiver.done(Error(
          ErrorCode::kTimedOut,
          absl::StrFormat("rank %d waited %.1f s for a message with tag %d from %s", options_.rank,
                          std::chrono::duration<double>(receiver.message.timeout).count(),
                          receiver.tag, source)));
    }
    lock.lock();
    has_receivers_.wait_for(lock, std::chrono::nanoseconds(kWatchPause));
  }
}

}  // namespace spindrift::torch_plugin
