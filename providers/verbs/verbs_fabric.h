#pragma once
// The verbs fabric of one endpoint. Part of the module libspindrift-verbs.so, which alone links
// libibverbs. verbs_fabric.cc moves data, verbs_connect.cc makes and ends connections,
// verbs_mend.cc replaces queue pairs that failed.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/message_fabric.h"

#include "providers/verbs/queue_pair.h"
#include "providers/verbs/registered_memory.h"
#include "providers/verbs/verbs_options.h"
#include "providers/verbs/verbs_peer.h"
#include "providers/verbs/verbs_port.h"

namespace spindrift {

class VerbsFabric final : public MessageFabric {
 public:
  explicit VerbsFabric(const VerbsOptions& options) : options_(options) {}
  ~VerbsFabric() override;
  Status open();

  const FabricCaps& caps() const override { return caps_; }
  Time now() const override;
  Result<std::uint16_t> add_address(std::string_view address) override;
  std::span<const std::string> addresses() const override { return names_; }
  Status check_address(std::string_view address) const override;
  Result<FabricPeer> connect(std::string_view address, std::span<const std::byte> hello,
                             std::uint16_t lanes) override;
  Status accept(FabricPeer peer, std::span<const std::byte> hello, std::uint16_t lanes) override;
  void refuse(FabricPeer peer, std::span<const std::byte> hello) override;
  void drop(FabricPeer peer) override;
  std::string describe_peer(FabricPeer peer) const override { return peers_[peer.value]->who; }
  Reach reach(FabricPeer peer) const override;
  std::string describe_lane(FabricPeer peer, std::uint16_t lane) const override;
  std::size_t poll_events(std::span<FabricEvent> out) override;
  Status add_region(LocalKey region, std::span<std::byte> bytes) override;
  Status add_device_region(LocalKey region, std::span<std::byte> bytes, int dmabuf_fd) override;
  void remove_region(LocalKey region) override { regions_.remove(region); }
  RemoteSpan offer(FabricPeer peer, const Sge& piece) override;
  std::size_t post(std::span<const FabricOp> ops) override;
  std::size_t poll(std::span<FabricCompletion> out) override;
  void release(const FabricCompletion& message) override;
  std::string last_error(FabricPeer peer) const override { return peers_[peer.value]->read_error; }
  void set_status(FabricPeer peer, const FabricStatus& status) override;
  FabricStatus status(FabricPeer peer) const override;
  void append_wait_fds(std::vector<int>& out) const override { out.push_back(epoll_.get()); }
  bool arm() override;
  void counters(CounterWriter& out) const override;

  // For tests, which make trouble: the queue pair of a lane fails as if its device had said so.
  void break_lane(FabricPeer peer, std::uint16_t lane);

 private:
  unsigned region_access() const;  // IBV_ACCESS_*
  struct Listener {
    std::unique_ptr<VerbsListener> calls;
    NetAddress address;
  };
  // Who a completion is for.
  struct PairOwner {
    VerbsPeer* peer = nullptr;
    std::uint16_t lane = 0;
    std::uint32_t number = 0;  // in its queue pair's ids; another after each
  };
  // A read that is over, or news of a lane.
  struct Ended {
    FabricCompletion::Kind kind = FabricCompletion::Kind::kRead;
    FabricCompletion::Fault fault = FabricCompletion::Fault::kNone;
    std::uint16_t lane = 0;
    bool is_ok = true;
    FabricPeer peer{};
    std::uint64_t tag = 0;
  };

  // verbs_fabric.cc
  std::size_t post_reads(std::span<const FabricOp> ops);
  bool fill_read(const FabricOp& op, const VerbsLane& lane, ibv_send_wr& to,
                 std::span<ibv_sge> pieces);
  void end_read(const VerbsPeer& peer, std::uint16_t lane, std::uint64_t tag,
                FabricCompletion::Fault fault);
  void take_work();
  void on_work(const ibv_wc& done);
  void on_received(VerbsPeer& peer, VerbsLane& lane, const ibv_wc& done);
  void on_failed(VerbsPeer& peer, std::uint16_t number, const ibv_wc& done);
  void end_request(VerbsPeer& peer, std::uint16_t number, PostedWork work, ibv_wc_status status);
  std::size_t poll_peer(VerbsPeer& peer, std::span<FabricCompletion> out) const;
  bool has_news(const VerbsPeer& peer) const;
  bool has_drained(const VerbsPeer& peer) const;

  // verbs_peers.cc
  static constexpr std::uint64_t kListenerMark = 1ULL << 32;  // in what epoll says
  Status open_descriptors();
  Status watch(int fd, std::uint64_t what, std::uint32_t events);
  Result<VerbsPeer*> take_peer(std::unique_ptr<VerbsTalk> talk, std::string who);
  void free_peer(VerbsPeer& peer);
  void forget_pairs(VerbsPeer& peer);
  void look_around();
  void take_callers(std::uint16_t listener);
  void look_at_peer(VerbsPeer& peer);
  void say(VerbsPeer& peer, std::span<const std::byte> frame);
  void give_up(VerbsPeer& peer, std::string cause);
  void lose(VerbsPeer& peer, std::string cause);
  void tell_gone(VerbsPeer& peer);
  void tell(FabricEvent event) { events_.push_back(std::move(event)); }
  void end_dropped(Time now);
  void end_vain_attempts(Time now);

  // verbs_connect.cc
  void on_dialed(VerbsPeer& peer);
  void on_frame(VerbsPeer& peer, const VerbsFrame& frame);
  Status on_call(VerbsPeer& peer, const VerbsFrame& frame);
  void on_answer(VerbsPeer& peer, const VerbsFrame& frame);
  Status take_answer(VerbsPeer& peer, const VerbsFrame& frame);
  void on_refusal(VerbsPeer& peer, const VerbsFrame& frame);
  void on_confirmed(VerbsPeer& peer);
  Status choose_gid(VerbsPeer& peer, const NetAddress& remote);
  Status check_card(const VerbsCard& card) const;
  Status make_lanes(VerbsPeer& peer, std::size_t count);
  Status connect_lanes(VerbsPeer& peer);
  VerbsCard card_of(const VerbsPeer& peer, std::span<const std::byte> hello) const;
  void refuse_call(VerbsPeer& peer, const std::string& reason);

  // verbs_mend.cc
  std::uint32_t name_pair(VerbsPeer& peer, std::uint16_t lane);
  void forget_pair(VerbsLane& lane);
  VerbsLane* find(std::uint32_t number, PairOwner*& owner);
  Status make_pair(VerbsPeer& peer, std::uint16_t number);
  Status connect_pair(VerbsPeer& peer, std::uint16_t number, const QueuePairCard& theirs);
  void post_probe(VerbsPeer& peer, std::uint16_t number, bool writes_first);
  void on_probed(VerbsPeer& peer, std::uint16_t number, bool is_ok);
  void fail_lane(VerbsPeer& peer, std::uint16_t number, const std::string& why);
  void on_ended(VerbsPeer& peer, std::uint16_t number);
  void bring_up(VerbsPeer& peer, std::uint16_t number, std::uint32_t room);
  void put_down(VerbsPeer& peer, std::uint16_t number);
  void renew(VerbsPeer& peer, std::uint16_t number);
  void on_lane_card(VerbsPeer& peer, VerbsFrameKind kind, const LaneCard& card);
  void on_renew(VerbsPeer& peer, const LaneCard& card);
  void answer_renewal(VerbsPeer& peer, std::uint16_t number);
  void on_renewed(VerbsPeer& peer, const LaneCard& card);
  LaneCard lane_card(VerbsPeer& peer, std::uint16_t number) const;
  std::string describe(const VerbsPeer& peer, std::uint16_t number) const;
  void mend(Time now);
  void set_timer();
  void take_device_events(std::size_t port);
  void on_port_event(std::size_t port, bool is_up, const std::string& what);
  void fail_pair(const ibv_qp* pair, const std::string& what);
  template <class Each>
  void for_each_lane(Each each);

  VerbsOptions options_;
  FabricCaps caps_;
  VerbsPorts ports_;
  std::vector<std::unique_ptr<CompletionQueues>> queues_;  // by port; outlive all queue pairs
  RegionTable regions_;
  UniqueFd epoll_;
  UniqueFd timer_;
  std::vector<Listener> listeners_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<VerbsPeer>> peers_;
  std::vector<std::uint32_t> free_peers_;
  std::vector<VerbsPeer*> open_peers_;
  std::vector<std::unique_ptr<VerbsPeer>> dropped_;
  std::size_t first_polled_ = 0;
  std::vector<PairOwner> owners_;
  std::vector<std::uint32_t> free_owners_;
  std::uint32_t pairs_named_ = 0;
  std::deque<FabricEvent> events_;
  std::vector<Ended> ended_;
  std::size_t ended_taken_ = 0;
  std::uint32_t opening_ = 0;        // peers that are not open yet
  std::uint32_t troubles_ = 0;       // lanes that are not up
  std::uint32_t gone_untold_ = 0;    // peers whose kGone waits until what they sent is read
  std::uint32_t turns_to_look_ = 1;  // until the sockets are looked at
  std::uint8_t reads_answered_ = 1;
  std::uint64_t completions_ = 0;
  std::uint64_t doorbells_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t reads_lost_ = 0;
  std::uint64_t lanes_lost_ = 0;
  std::uint64_t lanes_mended_ = 0;
  std::uint64_t repeated_ = 0;  // of peers that are gone
  std::uint64_t nonsense_ = 0;
};

// Errors say which device, and what it lacks.
Result<std::unique_ptr<MessageFabric>> open_verbs_fabric(const VerbsOptions& options);

}  // namespace spindrift
