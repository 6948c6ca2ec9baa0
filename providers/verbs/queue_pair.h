#pragma once
// A queue pair, what is under way on it, and the completion queues they share. Internal to
// providers/verbs.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

#include "spindrift/result.h"

#include "providers/verbs/verbs_greeting.h"
#include "providers/verbs/verbs_port.h"
#include "transport/base/ring.h"

namespace spindrift {

// Completion queues of one port. A queue never overflows: whoever completes there reserves.
class CompletionQueues {
 public:
  explicit CompletionQueues(const VerbsPort& port) : port_(port) {}
  CompletionQueues(const CompletionQueues&) = delete;
  CompletionQueues& operator=(const CompletionQueues&) = delete;
  ~CompletionQueues();
  // Room for `count` completions; null: the device has no more queues.
  Result<ibv_cq*> reserve(std::uint32_t count);
  // Given back when the queue has been seen empty: old completions may still lie in it.
  void give_back(ibv_cq* queue, std::uint32_t count);
  // Fills a prefix of `out` from one of the queues; each call begins with the next one.
  std::size_t poll(std::span<ibv_wc> out);
  // Asks all to make the channel's descriptor readable with their next completion.
  void arm();
  void take_wake_ups();
  std::size_t size() const { return queues_.size(); }

 private:
  struct Queue {
    ibv_cq* queue = nullptr;
    std::uint32_t capacity = 0;
    std::uint32_t reserved = 0;
    std::uint32_t returned = 0;
  };
  Result<ibv_cq*> make(std::uint32_t count);
  const VerbsPort& port_;
  std::vector<Queue> queues_;
  std::size_t next_ = 0;
  unsigned events_ = 0;  // wake-ups not yet acknowledged
};

// Where the other end is, and how to get there.
struct PathTo {
  PortCard port{};
  QueuePairCard queue_pair{};
  std::uint32_t mtu = 1024;      // both sides'
  std::uint32_t flow_label = 0;  // RoCE v2: chooses the UDP source port
  std::uint8_t reads = 1;        // of ours that the peer answers at a time
};

struct QueuePairNeeds {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
  std::uint32_t inline_bytes = 0;
  std::uint32_t pieces = 1;
  std::uint8_t reads_answered = 1;  // of the peer's at a time
};

// One request handed to the device.
struct PostedWork {
  enum class Kind : std::uint8_t { kMessage, kRecord, kProbe, kRead, kWrite };
  Kind kind = Kind::kMessage;
  std::uint64_t tag = 0;
};

class QueuePair {
 public:
  QueuePair() = default;
  QueuePair(QueuePair&& other) noexcept { *this = std::move(other); }
  QueuePair& operator=(QueuePair&& other) noexcept;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  // Ready for receives to be posted. `number` is what wr_id() carries.
  Status make(VerbsPort& port, CompletionQueues& queues, const VerbsOptions& options,
              const QueuePairNeeds& needs, std::uint32_t number);
  // Ready to receive and to send.
  Status connect(const PathTo& path, const GidBytes& own);
  // Nothing lands any more; what is under way comes back as flushed.
  void fail();
  // Nothing lands any more, and nothing comes back.
  void destroy();

  bool exists() const { return pair_ != nullptr; }
  bool is(const ibv_qp* pair) const { return pair_ == pair; }
  QueuePairCard card() const { return card_; }
  std::uint32_t inline_bytes() const { return inline_bytes_; }
  std::size_t room() const { return posted_->capacity() - posted_->size(); }
  bool is_idle() const { return posted_->is_empty() && receives_ == 0; }
  std::size_t under_way() const { return posted_->size(); }

  // Ids of requests: of the one that is `ahead` behind those noted, and of a buffer.
  std::uint64_t id_of(std::size_t ahead) const {
    return base_id() | ((posted_->end_serial() + ahead) & kSerialMask);
  }
  std::uint64_t receive_id(std::uint32_t slot) const { return base_id() | kReceiveBit | slot; }
  // Chains of requests; the device's word, 0: all were taken.
  int post(ibv_send_wr* first) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair_, first, &bad);
  }
  int post(ibv_recv_wr* first, std::uint32_t count) {
    ibv_recv_wr* bad = nullptr;
    receives_ += count;
    return ibv_post_recv(pair_, first, &bad);
  }
  // A request that is about to be posted.
  void note(PostedWork work) { posted_->push_back(work); }
  // The oldest request has ended; the caller goes on while has_reached() is false.
  PostedWork end_next() {
    const PostedWork work = posted_->front();
    posted_->pop_front();
    return work;
  }
  // Whether all requests up to the one with that id have ended.
  bool has_reached(std::uint64_t id) const {
    return posted_->is_empty() ||
           static_cast<std::int32_t>(static_cast<std::uint32_t>(posted_->front_serial() - id)
                                     << 1) > 0;
  }
  void end_receive() { --receives_; }

  static std::uint32_t number_of(std::uint64_t id) { return static_cast<std::uint32_t>(id >> 32); }
  static bool is_receive(std::uint64_t id) { return (id & kReceiveBit) != 0; }
  static std::uint32_t slot_of(std::uint64_t id) {
    return static_cast<std::uint32_t>(id & (kReceiveBit - 1));
  }

 private:
  static constexpr std::uint64_t kReceiveBit = 1U << 31;
  static constexpr std::uint64_t kSerialMask = kReceiveBit - 1;
  std::uint64_t base_id() const { return std::uint64_t{number_} << 32; }
  Status to_init(const QueuePairNeeds& needs);
  Status to_ready_to_receive(const PathTo& path, std::uint32_t gid_index);
  Status to_ready_to_send(const PathTo& path);
  Error refused(const char* step, int error, const std::string& hint) const;
  ibv_ah_attr address_of_peer(const PathTo& path, std::uint32_t gid_index) const;

  ibv_qp* pair_ = nullptr;
  VerbsPort* port_ = nullptr;
  CompletionQueues* queues_ = nullptr;
  const VerbsOptions* options_ = nullptr;
  QueuePairNeeds needs_;
  QueuePairCard card_;
  std::uint32_t number_ = 0;
  std::uint32_t inline_bytes_ = 0;
  std::uint32_t receives_ = 0;
  std::unique_ptr<Ring<PostedWork>> posted_;
};

}  // namespace spindrift
