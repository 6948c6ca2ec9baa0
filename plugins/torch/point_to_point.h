#pragma once
// Messages between two ranks while the others do something else. Every direction of every pair and
// every tag has a group of two of its own, made when it is first used; a small header says how long
// the message is.
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "plugins/torch/engine.h"

namespace spindrift::torch_plugin {

struct PointToPointOptions {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string name;     // prefix in the store
  std::string address;  // to listen on
  Duration spin{};
};

class PointToPoint final {
 public:
  struct Message {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    Duration timeout{};
  };
  // On a thread of the transport, no lock held. The rank that the message came from, or went to.
  using Done = std::function<void(const Result<std::uint32_t>& rank)>;

  // `store` must outlive it, and be safe to use from several threads.
  PointToPoint(Store& store, PointToPointOptions options);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  void send(std::uint32_t to, std::uint32_t tag, const Message& message, Done done);
  // From any rank when `from` is empty.
  void receive(std::optional<std::uint32_t> from, std::uint32_t tag, const Message& message,
               Done done);

 private:
  using Header = std::array<std::uint64_t, 2>;  // magic, bytes
  struct Key {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t tag = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Receiver {
    std::optional<std::uint32_t> from;
    std::uint32_t tag = 0;
    Message message{};
    Done done;
    Time deadline{};
  };
  // One direction between two ranks.
  struct Channel {
    Header header{};  // of the message that is awaited, or has come
    bool is_awaiting = false;
    bool has_header = false;
    std::unique_ptr<Engine> engine;  // last: what it runs points to the header
  };
  struct TransferTask;

  // All of these with mutex_ held.
  Channel& channel(const Key& key);
  void match();
  bool match_channel(const Key& key, Channel& channel, Receiver& receiver);
  void await_header(const Key& key, Channel& channel);
  void receive_body(const Key& key, Channel& channel, Receiver& receiver);
  void meet_new_senders();
  std::vector<Receiver> take_late(Time now);

  void on_header(const Key& key, const Status& status);
  void watch();
  std::string channel_name(const Key& key) const;

  Store& store_;
  const PointToPointOptions options_;
  std::mutex mutex_;
  std::map<Key, Channel> channels_;
  std::list<Receiver> receivers_;  // waiting, oldest first
  std::condition_variable has_receivers_;
  bool is_stopping_ = false;
  std::thread watcher_;  // looks at deadlines, and for senders whom nobody has met yet
};

}  // namespace spindrift::torch_plugin
