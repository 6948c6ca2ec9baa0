#pragma once
// The two ends of an NCCL connection. The receiver says where bytes belong (mailbox_line.h), and
// the sender writes them there with an immediate that names the line: no copy, no rendezvous.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/nccl/context.h"
#include "plugins/nccl/mailbox_line.h"
#include "plugins/nccl/profile.h"

namespace spindrift::nccl {

class Comm;

struct Request {
  Comm* comm = nullptr;
  std::atomic<bool> is_done{false};
  bool is_used = false;
  std::uint8_t count = 0;      // messages
  std::uint8_t remaining = 0;  // of them, not yet complete
  std::array<int, kMaxReceives> bytes{};
  std::array<std::uint32_t, kMaxReceives> registrations{};
  ProfiledEvent event;
};

// What both ends share. One thread at a time sends, receives and tests; other threads may run the
// engine meanwhile.
class Comm : public Link {
 public:
  Comm(Context& context, Engine& engine, std::string medium);
  ~Comm() override;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  Context& context() { return context_; }
  Engine& engine() { return engine_; }
  // *done = 1: the request is over and may be used again. `sizes` may be null.
  NcclResult test(Request& request, int* done, int* sizes);
  bool is_open() const { return state_ == State::kOpen; }
  bool is_failed() const { return state_.load(std::memory_order_acquire) == State::kFailed; }
  // Ends the connection; nothing waits for the peer.
  void close();
  // After a failure: what it was. Says so in the log, once.
  NcclResult report();
  const std::string& why() const { return why_; }
  // One line for the log about the connection as it was agreed on.
  std::string describe() const;

  void on_open() override;
  void on_failed(const std::string& why) override;
  bool uses(std::uint32_t registration) const override;

 protected:
  enum class State : std::uint8_t { kOpening, kOpen, kFailed };
  static constexpr std::uint32_t kNobody = 0xffffffff;  // tag of work that no request waits for

  // Null: all are under way.
  Request* take_request();
  void put_back(Request& request);
  std::uint32_t index_of(const Request& request) const {
    return static_cast<std::uint32_t>(&request - requests_.data());
  }
  void finish_one(Request& request);
  void fail(OpStatus status);
  virtual void after_progress() { probe_peer(); }
  // While somebody waits: asks the peer for a sign of life where the transport does not do so
  // itself. With the engine's lock held.
  void probe_peer();
  virtual Mailbox take_mailbox() { return {}; }
  virtual Engine::Ending polite_ending() const = 0;
  std::string rail_shares() const;
  virtual const char* role() const = 0;

  Context& context_;
  Engine& engine_;
  const std::string medium_;  // "eth0", for the log
  std::string peer_;          // for the log
  ConnId conn_{};
  std::uint32_t number_ = 0;  // at the engine
  std::atomic<State> state_{State::kOpening};
  std::string why_;  // set once, before state_ is kFailed
  bool has_opened_ = false;
  bool is_reported_ = false;
  std::uint64_t peer_key_ = 0;  // of memory of the peer; 0: none known yet
  std::uint32_t polls_ = 0;
  Time last_probe_{};
  std::array<Request, kMailboxLines> requests_;
  std::vector<std::uint16_t> free_requests_;
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
};

class SendComm final : public Comm {
 public:
  using Comm::Comm;
  // With the engine's lock held.
  Status start(const std::string& address, const ConnectOptions& options, std::uint64_t nonce);
  struct Message {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    int tag = 0;
    Registration* memory = nullptr;
  };
  // *request stays null where nothing was consumed.
  NcclResult isend(const Message& message, void* profiled_by, Request** request);
  void on_open() override;
  void on_completion(const Completion& completion) override;

 private:
  NcclResult send_locked(const Message& message, void* profiled_by, Request** request);
  // The line that this send meets, or null; `sequence` is set then.
  const MailboxLine* find_line(int tag, std::uint64_t& sequence);
  void use_line(std::uint64_t sequence);
  NcclResult refuse_length(std::size_t bytes, int tag, std::uint64_t capacity);
  Mailbox take_mailbox() override { return std::move(mailbox_); }
  const char* role() const override { return "to"; }
  Engine::Ending polite_ending() const override { return Engine::Ending::kFarewell; }

  Mailbox mailbox_;
  const MailboxLine* lines_ = nullptr;
  std::uint64_t head_ = 0;        // lines of receives that were met, all
  std::uint32_t used_ = 0;        // bit i: line head_ + i was met
  std::uint16_t head_count_ = 0;  // lines of the receive at head_; 0: not seen yet
};

class RecvComm final : public Comm {
 public:
  using Comm::Comm;
  // With the engine's lock held; `mailbox` is the sender's, serialised.
  Status start(ConnId conn, const std::vector<std::byte>& mailbox, const ConnectOptions& options,
               std::uint64_t nonce);
  struct Receive {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    int tag = 0;
    Registration* memory = nullptr;
  };
  NcclResult irecv(std::span<const Receive> group, void* profiled_by, Request** request);
  void on_completion(const Completion& completion) override;

 private:
  struct Posted {
    Request* request = nullptr;
    std::uint64_t sequence = 0;
    std::uint8_t index = 0;
  };

  NcclResult receive_locked(std::span<const Receive> group, void* profiled_by, Request** request);
  bool write_line(const Receive& receive, MailboxLine& line);
  void on_written(const Completion& completion);
  void post_lines();
  void post_receives();
  void after_progress() override;
  Mailbox take_mailbox() override { return std::move(empty_); }
  const char* role() const override { return "from"; }
  Engine::Ending polite_ending() const override { return Engine::Ending::kWait; }

  Mailbox empty_;  // what a receive without memory names
  std::array<MailboxLine, kMailboxLines> lines_{};
  std::array<Posted, kMailboxLines> posted_{};
  std::uint64_t next_line_ = 0;     // lines ever made
  std::uint64_t lines_posted_ = 0;  // of them, handed to the engine
  std::uint32_t receives_to_post_ = 0;
};

}  // namespace spindrift::nccl
