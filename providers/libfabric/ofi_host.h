#pragma once
// The libfabric fabric of one endpoint. Internal to providers/libfabric: ofi_fabric.cc has the
// engine's calls, ofi_traffic.cc moves messages, ofi_reads.cc reads, ofi_lanes.cc tends lanes where
// there are several, ofi_connections.cc makes connections, ofi_endings.cc ends them.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <rdma/fi_rma.h>

#include "providers/libfabric/ofi_options.h"
#include "providers/libfabric/ofi_peer.h"
#include "transport/base/ring.h"
#include "transport/base/rng.h"

namespace spindrift {

class OfiFabric final : public MessageFabric {
 public:
  explicit OfiFabric(const OfiOptions& options);
  ~OfiFabric() override;
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
  std::string describe_peer(FabricPeer peer) const override;
  Reach reach(FabricPeer peer) const override { return peers_[peer.value]->reach; }
  std::string describe_lane(FabricPeer peer, std::uint16_t lane) const override;
  std::size_t poll_events(std::span<FabricEvent> out) override;
  Status add_region(LocalKey region, std::span<std::byte> bytes) override {
    return memory_.add_region(region, bytes);
  }
  void remove_region(LocalKey region) override;
  RemoteSpan offer(FabricPeer peer, const Sge& piece) override;
  std::size_t post(std::span<const FabricOp> ops) override;
  std::size_t poll(std::span<FabricCompletion> out) override;
  void release(const FabricCompletion& message) override;
  std::string last_error(FabricPeer peer) const override { return peers_[peer.value]->read_error; }
  void set_status(FabricPeer peer, const FabricStatus& status) override;
  FabricStatus status(FabricPeer peer) const override { return peers_[peer.value]->shown; }
  void append_wait_fds(std::vector<int>& out) const override { out.push_back(epoll_.get()); }
  bool arm() override;
  void counters(CounterWriter& out) const override;

 private:
  struct Listener {
    UniqueFd socket;
  };
  // A read that is over.
  struct ReadDone {
    std::uint64_t tag = 0;
    FabricPeer peer{};
    std::uint16_t lane = 0;
    FabricCompletion::Fault fault = FabricCompletion::Fault::kNone;
  };
  struct GateSlab {
    std::unique_ptr<OfiGateCell[]> cells{};
    OfiRegistration registration{};
  };

  const OfiDevice& first_device() const { return *rails_.front().device; }
  bool is_quiet();
  bool is_quiet(OfiRail& rail);

  // ofi_connections.cc
  Status open_rails(const OfiAddress& address, const NetAddress& source);
  Status open_rail(const OfiWish& wish, OfiRails& opened) const;
  Status check_provider(const OfiAddress& address, std::string_view text) const;
  Result<OfiPeer*> take_peer(UniqueFd socket);
  Status grant_room(OfiPeer& peer);
  Status take_gate(OfiPeer& peer);
  Status watch(int fd, std::uint64_t what, bool for_writing);
  void look_at_sockets();
  void take_callers(std::uint16_t listener);
  void look_at_peer(OfiPeer& peer);
  void on_dialed(OfiPeer& peer);
  void on_greeting(OfiPeer& peer, const OfiGreeting& greeting);
  Status on_call(OfiPeer& peer, const OfiGreeting& call);
  void on_answer(OfiPeer& peer, const OfiGreeting& answer);
  void try_out(OfiPeer& peer);
  void on_lane_tried(OfiPeer& peer, OfiLane& lane, bool has_read);
  void on_tried(OfiPeer& peer, bool has_read);
  void on_met(OfiPeer& peer);
  void on_farewell(OfiPeer& peer, const OfiGreeting& farewell);
  Status take_other_side(OfiPeer& peer, const OfiGreeting& theirs);
  OfiGreeting greeting(const OfiPeer& peer, OfiGreetingKind kind,
                       std::span<const std::byte> hello) const;
  void tell(FabricEvent event) { events_.push_back(std::move(event)); }
  void drop_silent_callers();

  // ofi_endings.cc
  void lose(OfiPeer& peer, std::string cause);
  void tell_those_that_are_gone();
  void leave(OfiPeer& peer);
  void free_if_done(OfiPeer& peer);

  // ofi_lanes.cc
  std::size_t lane_index(const OfiPeer& peer, const OfiLane& lane) const {
    return static_cast<std::size_t>(&lane - peer.lanes.data());
  }
  void fail_lane(OfiPeer& peer, OfiLane& lane, const std::string& why);
  void bring_up(OfiPeer& peer, OfiLane& lane);
  void change_message_lane(OfiPeer& peer);
  bool may_renew_reader(std::size_t rail) const;
  void try_again(OfiPeer& peer, OfiLane& lane, Time when);
  void watch_lane(OfiPeer& peer, OfiLane& lane, Time when);
  bool has_answered_since(OfiPeer& peer, const OfiLane& silent, Time since, Time when);
  void watch_messages(OfiPeer& peer, Time when);
  void watch_lanes();
  void watch_trial(OfiPeer& peer, Time when);
  std::size_t tell_lanes(OfiPeer& peer, std::span<FabricCompletion> out);
  bool keep(OfiPeer& peer, const OfiHead& head, OfiBuffer& buffer, std::size_t bytes);
  bool hand_over_kept(OfiPeer& peer, OfiBuffer& buffer);
  void send_kept(OfiPeer& peer);
  void send_again(OfiPeer& peer, std::uint32_t from);
  void forget_kept(OfiPeer& peer, std::uint32_t released);
  void on_gate_count(OfiPeer& peer, const OfiGateRead& gate, std::uint32_t arrived);
  bool tell_region(OfiPeer& peer, const OfiMemory::Region& region);
  bool take_region(OfiPeer& peer, const OfiBuffer& buffer);
  bool find_theirs(const OfiPeer& peer, const RemoteSpan& span, std::size_t lane,
                   OfiRegionCard::ByLane& out) const;

  // ofi_traffic.cc
  bool send(OfiPeer& peer, const FabricOp& op);
  OfiBuffer* take_send_buffer();
  long hand_over(OfiPeer& peer, std::byte* bytes, std::size_t count, OfiBuffer* buffer);
  OfiHead head_for(OfiPeer& peer, OfiKind kind);
  void show(OfiPeer& peer);
  void pay_debts();
  void fill_receive_queue(OfiRail& rail);
  void fill_receive_queues();
  std::size_t take_completions();
  std::size_t take_completions(OfiRail& rail);
  std::size_t take_shuffled(std::span<const fi_cq_msg_entry> entries);
  void on_completion(OfiOperation& done, std::size_t bytes);
  void on_failure(const OfiRail& rail);
  void on_nameless_failure(const OfiRail& rail, const fi_cq_err_entry& entry,
                           const std::string& why);
  void on_failed(OfiOperation& failed, int error, const std::string& why);
  void on_sent(OfiBuffer& buffer);
  void take_message(OfiBuffer& buffer);
  void take_shown(OfiPeer& peer, const OfiHead& head, const OfiBuffer& buffer);
  void apply_shown(OfiPeer& peer);
  void make_ready(OfiPeer& peer);
  void make_owing(OfiPeer& peer);
  OfiPeer* find(std::uint64_t name);

  // ofi_polling.cc
  std::size_t poll_peer(OfiPeer& peer, std::span<FabricCompletion> out);
  bool has_more(const OfiPeer& peer) const;
  void release_regions(OfiPeer& peer);

  // ofi_reads.cc
  bool read(OfiPeer& peer, const FabricOp& op);
  bool find_sources(OfiPeer& peer, const FabricOp& op, std::span<fi_rma_iov> out) const;
  void look_at_gate(OfiPeer& peer, OfiLane& lane);
  bool begin_gate(OfiPeer& peer, OfiLane& lane, OfiGateRead& gate);
  void on_landed(OfiRead& read);
  void on_read_failed(OfiRead& read, int error);
  bool has_just_ended(OfiPeer& peer);
  void on_gate(OfiGateRead& gate, bool is_ok);
  void finish_read(OfiRead& read, FabricCompletion::Fault fault);
  void finish_reads(OfiPeer& peer);
  template <class Concerns>
  void end_reads(const Concerns& concerns);
  void end_reads_of(const OfiPeer& peer);
  void stop_reads(std::size_t rail);
  void abandon(OfiReading& one);
  void break_down(const std::string& cause);

  OfiOptions options_;
  FabricCaps caps_;
  UniqueFd epoll_;
  UniqueFd timer_;
  OfiRails rails_;  // lane k of a peer takes rail k
  OfiMemory memory_;
  OfiBufferPool receive_pool_;
  OfiBufferPool send_pool_;
  std::size_t receives_granted_ = 0;  // at each rail
  std::vector<GateSlab> gates_;
  std::vector<OfiGatePlace> free_gates_;
  std::unique_ptr<OfiRead[]> read_records_;
  std::vector<OfiRead*> free_reads_;

  std::vector<Listener> listeners_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<OfiPeer>> peers_;
  std::vector<std::uint32_t> free_peers_;
  std::vector<OfiPeer*> ready_;
  std::vector<OfiPeer*> owing_;
  std::deque<FabricEvent> events_;
  Ring<ReadDone> reads_done_;
  std::uint32_t opening_ = 0;      // peers that are not open yet
  std::uint32_t leaving_ = 0;      // ... that were dropped, and of which something is under way
  std::uint32_t gone_untold_ = 0;  // ... whose kGone waits until what they sent is polled
  std::uint32_t troubles_ = 0;     // lanes that are down, or were and are tried
  std::uint32_t turns_to_look_ = 1;
  std::string broken_;  // why nothing can move any more; empty: it can
  Rng shuffle_;         // of what is taken late: OfiOptions::shuffle_seed
  std::vector<fi_cq_msg_entry> late_;

  std::uint64_t reads_begun_ = 0;  // and reads of gates: their serial numbers
  std::uint64_t messages_sent_ = 0;
  std::uint64_t messages_received_ = 0;
  std::uint64_t shown_ = 0;
  std::uint64_t reads_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t readers_renewed_ = 0;
  std::uint64_t lanes_lost_ = 0;
  std::uint64_t lanes_mended_ = 0;
  std::uint64_t sent_again_ = 0;
  std::uint64_t repeated_ = 0;  // messages that had come before
  std::uint64_t refusals_ = 0;  // operations that libfabric had no room for
  std::uint64_t stale_ = 0;     // messages to connections that were over
  std::uint64_t nonsense_ = 0;
};

}  // namespace spindrift
