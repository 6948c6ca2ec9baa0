#pragma once
// Connections of one rank to the others: set-up, small messages, writes. Knows nothing of
// collectives. One connection per pair of ranks, dialled by the lower rank; both ends use it both
// ways. Ranks of one host may have an endpoint of their own for it: it is dialled first, and where
// it does not come to a connection, the network is.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spindrift/collective.h"
#include "spindrift/endpoint.h"

#include "collectives/bound_plan.h"
#include "collectives/greeting.h"
#include "collectives/memory_pool.h"
#include "collectives/message.h"
#include "collectives/rendezvous.h"
#include "transport/base/pages.h"

namespace spindrift::collectives {

// What happens on links. Called from Links::poll.
class LinkSink {
 public:
  virtual ~LinkSink() = default;
  // False: not now. The message, and all of the peer that follow, wait for retry_held().
  virtual bool on_message(std::uint32_t peer, const MessageHeader& header,
                          std::span<const std::byte> payload) = 0;
  // A write of the peer has arrived in full.
  virtual void on_written(std::uint32_t peer, std::uint32_t immediate, std::uint64_t bytes) = 0;
  // A write of this rank is over.
  virtual void on_write_done(std::uint64_t token) = 0;
  virtual void on_open(std::uint32_t peer) = 0;
  // The connection has ended; `is_orderly`: by the peer's farewell.
  virtual void on_lost(std::uint32_t peer, bool is_orderly, std::string why) = 0;
};

enum class PostOutcome : std::uint8_t {
  kPosted,
  kFull,     // again after the next completions
  kGone,     // the connection is ending: on_lost follows
  kRefused,  // last_error() says why
};

class Links final {
 public:
  // Tokens of writes: below 2^56.
  static constexpr std::uint32_t kTokenBits = 56;
  // Of a message in registered memory.
  static constexpr std::size_t kSlotBytes = sizeof(MessageHeader) + kSmallBytes;

  // The first endpoint reaches all ranks; the second one, if there is one, those of this host whose
  // seat has an address for it.
  Links(Endpoints endpoints, Roster roster, const CommunicatorOptions& options, LinkSink& sink);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(links_.size()); }
  // The numbers in `RankLink::rank` are these too.
  std::vector<RankLink> describe() const;
  // What the peer is dialled at.
  const std::string& address(std::uint32_t peer) const;
  // Number of the endpoint that the link to the peer runs over.
  std::size_t endpoint_of(std::uint32_t peer) const { return links_[peer].via; }

  // Dials the peer, or waits for its call, unless that has happened; non-blocking.
  Status want(std::uint32_t peer);
  bool is_open(std::uint32_t peer) const { return links_[peer].state == State::kOpen; }
  bool is_lost(std::uint32_t peer) const { return links_[peer].state == State::kLost; }
  // Why a lost link ended.
  const std::string& why_lost(std::uint32_t peer) const { return links_[peer].why_lost; }

  // Payload of up to kSmallBytes, copied before this returns.
  PostOutcome send(std::uint32_t peer, const MessageHeader& header,
                   std::span<const std::byte> payload);
  struct Target {
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
  };
  PostOutcome write(std::uint32_t peer, const Sge& source, const Target& target,
                    std::uint32_t immediate, std::uint64_t token);
  std::string last_error(std::uint32_t peer) const;

  // One turn: completions and events to the sink. Returns how many things happened.
  std::size_t poll();
  // Offers the sink again what it did not want.
  void retry_held();
  // Until there may be something to poll, at most `timeout`; or until `wake_fd` is readable.
  void sleep(Duration timeout, int wake_fd = -1);
  Time now() const { return endpoints_[0]->now(); }
  // Messages in larger buffers that no peer has acknowledged yet.
  std::size_t unacknowledged() const { return send_slots_ - free_slots_.size(); }

  // Ends all connections at once.
  void abort_all();
  // Says farewell to all; at most the connections' close_timeout.
  void close_all();

 private:
  enum class State : std::uint8_t { kNone, kWanted, kDialling, kAccepted, kOpen, kLost };
  struct Link {
    State state = State::kNone;
    std::size_t via = 0;  // endpoint
    ConnId conn{};
    Pages slots;  // receive slots, receive_slots_ x slot bytes
    MemoryRegion region{};
    std::string why_lost;
    std::string why_far;             // the network carries it although both are on one host
    bool has_said_goodbye = false;   // this rank
    bool has_heard_goodbye = false;  // from the peer
  };

  struct Held {
    std::uint32_t peer = 0;
    std::uint32_t slot = 0;
    std::uint64_t bytes = 0;
  };

  Status dial(std::uint32_t peer);
  Status could_not_connect(std::uint32_t peer, const Error& error) const;
  bool is_near(std::uint32_t peer) const { return links_[peer].via != 0; }
  void leave_near(std::uint32_t peer, const std::string& why);
  bool falls_back(std::uint32_t peer, const std::string& why);
  std::string why_not_welcome(std::size_t via, const ConnInfo& info, std::uint32_t& peer) const;
  Status prepare(std::uint32_t peer, ConnId conn);
  bool post_slot(std::uint32_t peer, std::uint32_t slot);
  std::size_t poll_endpoint(std::size_t via);
  void on_completion(std::size_t via, const Completion& completion);
  void on_received(std::uint32_t peer, std::uint32_t slot, const Completion& completion);
  bool offer(const Held& message);
  void repost(std::uint32_t peer, std::uint32_t slot);
  void on_event(std::size_t via, const ConnEvent& event);
  void on_request(std::size_t via, ConnId conn);
  std::optional<std::uint32_t> peer_of(std::size_t via, ConnId conn) const;
  void lose(std::uint32_t peer, bool is_orderly, std::string why);
  bool part_with(std::uint32_t peer);
  Status make_send_slots();
  void drain();
  bool is_over(const Link& link) const;
  Endpoint& endpoint(std::uint32_t peer) const { return *endpoints_[links_[peer].via]; }

  const Endpoints endpoints_;
  const Roster roster_;
  const CommunicatorOptions options_;
  LinkSink& sink_;
  const std::uint32_t rank_;
  std::uint32_t receive_slots_;
  std::vector<Link> links_;
  // Messages above what the transport copies itself wait here for their acknowledgement.
  Pages send_memory_;
  RegionSet send_set_{};
  std::size_t send_slots_ = 0;
  std::vector<std::uint32_t> free_slots_;
  struct Unposted {
    std::uint32_t peer = 0;
    std::uint32_t slot = 0;
  };
  std::vector<Unposted> unposted_;                        // receive slots that met a full queue
  std::vector<Held> held_;                                // in order of arrival
  std::array<std::uint32_t, kMaxEndpoints> links_via_{};  // by endpoint
  std::uint32_t turn_ = 0;
  bool is_closing_ = false;
  bool has_noted_ = false;  // that a near link went over the network
};

}  // namespace spindrift::collectives
