#pragma once
// Which Ethernet address stands for which IP address on one port: asked for, learnt, checked again,
// forgotten (RFC 826; RFC 4861, 7.3). Time is an argument; frames are sent by the caller. Internal
// to providers/dpdk.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/types.h"

#include "providers/dpdk/mac_address.h"

namespace spindrift {

struct NeighborTimes {
  // An answer is good for this long; then the neighbour is asked again, while it is still used.
  Duration reachable = std::chrono::seconds(30);
  // Between questions that are not answered.
  Duration retry = std::chrono::milliseconds(200);
  // Unanswered questions until a neighbour counts as gone.
  std::uint32_t tries = 5;
};

class NeighborTable {
 public:
  static constexpr std::size_t kCapacity = 4096;

  explicit NeighborTable(const NeighborTimes& times) : times_(times) {}

  void set_static(const NetAddress& address, const MacAddress& mac);

  // The address to send to, or null: it has been asked for now (poll() says what to send).
  const MacAddress* use(const NetAddress& address, Time now);

  // Somebody said so. Strangers are taken in only when they ask for us (`is_new_welcome`).
  struct News {
    NetAddress address{};
    MacAddress mac{};
    bool is_new_welcome = false;
    // The answer to a question: the neighbour is there now.
    bool is_confirmed = false;
  };
  void learn(const News& news, Time now);

  // What is due: questions to send, and neighbours that did not answer.
  struct Due {
    NetAddress address{};
    MacAddress mac{};          // is_question: whom to ask; zero: everybody
    bool is_question = false;  // otherwise: it is gone
  };
  std::size_t poll(Time now, std::span<Due> out);
  Time next_deadline() const { return next_deadline_; }

  // Rises when an address already handed out is no longer right.
  std::uint64_t generation() const { return generation_; }
  std::size_t size() const { return entries_.size(); }

 private:
  enum class State : std::uint8_t {
    kAsking,  // no answer yet
    kReachable,
    kChecking,  // was reachable and is used: asked again, by its own address first
    kStale,     // was reachable and is not used
    kStatic,
  };
  struct Entry {
    NetAddress address{};
    MacAddress mac{};
    State state = State::kAsking;
    std::uint32_t asked = 0;
    bool is_used = false;  // since the last answer
    Time deadline = kNever;
  };
  Entry* find(const NetAddress& address);
  Entry* add(const NetAddress& address);
  void set_deadline(Entry& entry, Time deadline);
  bool on_deadline(Entry& entry, Time now, Due& out, bool& is_gone) const;

  NeighborTimes times_;
  std::vector<Entry> entries_;
  Time next_deadline_ = kNever;
  std::uint64_t generation_ = 0;
};

}  // namespace spindrift
