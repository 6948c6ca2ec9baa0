#pragma once
// The shared-memory fabric of one endpoint. Internal to providers/shm: shm_fabric.cc moves data,
// shm_greeting.cc makes and ends connections.
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/config.h"

#include "providers/shm/shm_peer.h"
#include "transport/base/ring.h"

namespace spindrift {

inline constexpr std::uint32_t kMaxShmPeers = 65535;

class ShmFabric final : public MessageFabric {
 public:
  explicit ShmFabric(const ShmOptions& options);
  ~ShmFabric() override;
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
  std::size_t poll_events(std::span<FabricEvent> out) override;
  Status add_region(LocalKey region, std::span<std::byte> bytes) override;
  void remove_region(LocalKey region) override;
  std::uint32_t reads_from(FabricPeer peer) const override;
  RemoteSpan offer(FabricPeer peer, const Sge& piece) override;
  std::size_t post(std::span<const FabricOp> ops) override;
  std::size_t poll(std::span<FabricCompletion> out) override;
  void release(const FabricCompletion& message) override {
    peers_[message.peer.value]->reader.release(message);
  }
  std::string last_error(FabricPeer peer) const override { return peers_[peer.value]->read_error; }
  void set_status(FabricPeer peer, const FabricStatus& status) override;
  FabricStatus status(FabricPeer peer) const override;
  void append_wait_fds(std::vector<int>& out) const override { out.push_back(epoll_.get()); }
  bool arm() override;
  void counters(CounterWriter& out) const override;

 private:
  struct Listener {
    std::string path;
    UniqueFd socket;
    dev_t device = 0;  // of the socket's file: only our own is removed at the end
    ino_t inode = 0;
  };
  struct ReadDone {
    std::uint64_t tag = 0;
    FabricPeer peer{};
    bool is_ok = true;
  };

  // shm_greeting.cc
  Result<ShmPeer*> take_peer(UniqueFd socket, Time now);
  void free_peer(ShmPeer& peer);
  Status watch(int fd, std::uint64_t what);
  void look_at_sockets();
  void take_callers(std::uint16_t listener);
  void look_at_peer(ShmPeer& peer);
  void on_greeting(ShmPeer& peer, ShmReceived& received);
  Status on_call(ShmPeer& peer, ShmReceived& received);
  void on_answer(ShmPeer& peer, const ShmGreeting& greeting);
  Status map(ShmPeer& peer, int fd);
  void probe(ShmPeer& peer, const ShmGreeting& greeting);
  bool lacks_single_copy(const ShmPeer& peer) const;
  ShmGreeting greeting(const ShmPeer& peer, ShmGreetingKind kind,
                       std::span<const std::byte> hello) const;
  void start(ShmPeer& peer);
  void lose(ShmPeer& peer, std::string cause);
  void refuse_call(ShmPeer& peer, const std::string& reason);
  void tell(FabricEvent event) { events_.push_back(std::move(event)); }
  void tell_gone(ShmPeer& peer);
  void drop_silent_callers(Time now);

  // shm_fabric.cc
  bool read_memory(ShmPeer& peer, const FabricOp& op);
  bool send_message(ShmPeer& peer, const FabricOp& op);
  void note_moved(ShmPeer& peer, std::uint64_t bytes);
  void time_ring(ShmPeer& peer, std::span<const std::byte> payload);
  bool poll_status(ShmPeer& peer, FabricCompletion& out) const;
  std::size_t poll_peer(ShmPeer& peer, std::span<FabricCompletion> out);
  void wake(ShmPeer& peer);
  bool has_news(const ShmPeer& peer) const;

  ShmOptions options_;
  FabricCaps caps_;
  UniqueFd epoll_;
  std::vector<Listener> listeners_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<ShmPeer>> peers_;
  std::vector<std::uint32_t> free_peers_;
  std::vector<ShmPeer*> open_peers_;  // those with rings
  std::size_t first_polled_ = 0;
  static constexpr std::uint32_t kFetchedBytes = 4096;
  std::array<std::byte, kFetchedBytes> fetched_{};  // written, never read
  std::deque<FabricEvent> events_;
  Ring<ReadDone> reads_done_;
  std::uint32_t opening_ = 0;        // peers that are not open yet
  std::uint32_t gone_untold_ = 0;    // peers whose kGone waits until what they wrote is read
  std::uint32_t turns_to_look_ = 1;  // until the sockets are looked at
  std::uint64_t reads_ = 0;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t wake_ups_ = 0;
  std::uint64_t nonsense_ = 0;
};

}  // namespace spindrift
