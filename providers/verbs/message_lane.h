#pragma once
// Messages of one peer, both ways, and the words that each side shows the other: over one queue
// pair, and across its failures. A message stays in its buffer until the peer's device has it; what
// a failed queue pair leaves uncertain is sent again over the next one, and dropped by its number
// where it has arrived before. Internal to providers/verbs.
//
// There are always buffers for what is sent: each side says how many it ever posted, in every
// message and in the record that it writes into the other's page. A record needs no buffer, so
// words can always be shown; with a buffer it wakes the peer as well.
#include <cstdint>
#include <span>
#include <vector>

#include "spindrift/message_fabric.h"

#include "providers/verbs/registered_memory.h"
#include "providers/verbs/verbs_lane.h"
#include "providers/verbs/verbs_page.h"
#include "transport/base/ring.h"

namespace spindrift {

// In front of every message. Little-endian; both ends say so below.
struct VerbsMessageHead {
  std::uint32_t number = 0;         // of the message, modulo 2^32
  std::uint32_t room = 0;           // buffers that the sender ever posted to this queue pair
  std::uint32_t payload_bytes = 0;  // behind header
  std::uint16_t lane = 0;
  std::uint8_t header_bytes = 0;
  std::uint8_t unused = 0;
};
static_assert(sizeof(VerbsMessageHead) == 16 && std::endian::native == std::endian::little);

class MessageLane {
 public:
  // A message of the fabric, with both heads.
  static constexpr std::uint32_t kMaxPayload = 16384;
  static constexpr std::uint32_t kBufferBytes =
      (sizeof(VerbsMessageHead) + kFabricHeaderBytes + kMaxPayload + 63) / 64 * 64;
  enum class Got : std::uint8_t { kFine, kNonsense };

  // Takes all memory.
  Status open(const VerbsPorts& ports, std::uint32_t buffers);
  bool is_made() const { return page_ != nullptr; }
  QueuePairNeeds needs() const;
  // A fresh queue pair takes the place of the last one: posts buffers to it.
  void begin(VerbsLane& lane);
  // The peer's end of it has `room` buffers, and ours may send.
  void start(std::uint32_t room);

  VerbsLane lane{};
  std::uint32_t posted() const { return posted_; }
  const VerbsPage& page() const { return *page_; }
  VerbsPage& page() { return *page_; }
  std::uint64_t page_address() const { return reinterpret_cast<std::uintptr_t>(page_); }
  const Registrations& page_registrations() const { return page_keys_; }
  void set_peer_page(std::uint64_t address, std::uint32_t key) {
    peer_page_ = address;
    peer_page_key_ = key;
  }

  // Messages out. write() only after can_write(); nothing goes before pump().
  bool can_write() const;
  void write(const FabricOp& op);
  void pump();
  // Whether all that was written or shown has arrived.
  bool has_settled() const { return oldest_ == next_ && records_ == 0 && !owes_record_; }
  // So that the end of what was sent before is told.
  void flush();

  // Words.
  void show(const FabricStatus& status);
  // The newest whole record of the peer.
  FabricStatus seen();
  const FabricStatus& last_seen() const { return seen_; }

  // From the device.
  void on_ended(PostedWork work, bool is_ok);
  Got on_received(std::uint32_t buffer, const ibv_wc& done);
  void on_unused(std::uint32_t buffer);  // its queue pair failed
  void take_back_buffers();              // ... and never gave them back

  // Messages in.
  bool has_message() const { return !arrived_->is_empty(); }
  std::uint32_t held() const { return held_; }
  void take(FabricCompletion& out);
  void release(const FabricCompletion& message);
  // What may wait for the end of a turn: buffers are posted, and the peer is told.
  void tend();

  std::uint64_t doorbells() const { return doorbells_; }
  std::uint64_t requests() const { return requests_; }
  std::uint64_t repeated() const { return repeated_; }

 private:
  struct Arrived {
    std::uint32_t buffer = 0;
    VerbsMessageHead head{};
  };
  std::byte* out_buffer(std::uint64_t message) const {
    return out_ + (message % buffers_) * kBufferBytes;
  }
  std::byte* in_buffer(std::uint32_t buffer) const {
    return in_ + std::size_t{buffer} * kBufferBytes;
  }
  bool has_credit(std::uint32_t reserve) const {
    return static_cast<std::int32_t>(room_ - consumed_) > static_cast<std::int32_t>(reserve);
  }
  void take_room(std::uint32_t room, std::uint32_t generation);
  void post_buffers();
  void send_record();

  Pages memory_;
  Registrations page_keys_;
  Registrations buffer_keys_;
  VerbsPage* page_ = nullptr;
  std::byte* out_ = nullptr;
  std::byte* in_ = nullptr;
  std::uint32_t buffers_ = 0;
  std::uint64_t peer_page_ = 0;
  std::uint32_t peer_page_key_ = 0;

  // Messages out: oldest_ <= unsent_ <= next_ <= oldest_ + buffers_.
  std::uint64_t oldest_ = 0;  // that the peer's device may not have
  std::uint64_t unsent_ = 0;  // first that is not under way
  std::uint64_t next_ = 0;
  std::uint32_t consumed_ = 0;  // buffers of the peer's end
  std::uint32_t room_ = 0;      // ... that were ever posted there
  std::uint32_t sent_since_signal_ = 0;
  std::vector<std::uint32_t> lengths_;  // by buffer

  // Messages in.
  std::unique_ptr<Ring<Arrived>> arrived_;
  std::uint32_t expected_ = 0;  // number of the next one
  std::uint32_t held_ = 0;
  std::vector<bool> is_held_;        // by buffer
  std::uint32_t posted_ = 0;         // buffers, ever, to this queue pair
  std::uint32_t told_ = 0;           // ... as the peer knows
  std::vector<std::uint32_t> idle_;  // buffers that are neither posted nor held

  // Words.
  FabricStatus shows_;
  FabricStatus seen_;
  std::uint64_t serial_ = 0;
  std::uint64_t seen_serial_ = 0;
  std::uint32_t records_ = 0;  // under way
  bool owes_record_ = false;
  bool owes_wake_ = false;

  std::uint64_t doorbells_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t repeated_ = 0;
};

}  // namespace spindrift
