#pragma once
// One connection of a soak run, with the memory and the work of both its ends, and what must become
// of all that: every completion and every byte is checked here.
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/soak/host.h"

namespace spindrift::soak {

enum class End : std::uint8_t { kInitiator, kTarget };
inline End other(End end) {
  return end == End::kInitiator ? End::kTarget : End::kInitiator;
}

enum class Mistake : std::uint8_t { kNone, kKey, kRight, kBounds };

class Link {
 public:
  Link(std::uint32_t id, const Plan& plan, Host& initiator, Host& target);
  std::uint32_t id() const { return id_; }
  Host& host(End end) { return *ends_[index(end)].host; }
  ConnId conn(End end) const { return ends_[index(end)].conn; }
  bool is_at(const Host& host, ConnId conn, End& end) const;
  const std::string& failure() const { return failure_; }
  // Where the message of a RECEIVE completion lies.
  std::byte* buffer_of(End end, const Completion& one);
  std::uint64_t operations() const { return operations_; }

  void connect(Rng& rng);
  void accept(ConnId conn, Rng& rng);
  void reject(ConnId conn);
  // One random operation; nothing where the end is not open or has no room.
  void post(End end, Rng& rng);
  void post_receives(End end);
  void close(End end);
  void abort(End end);
  void vanish(const Host& host);  // its process is gone
  // What is posted from here on has a deadline, or is wrong: the connection may fail.
  void expect_trouble();
  bool may_fail(End end) const;

  void on_completion(End end, const Completion& one);
  void on_event(End end, ConnEvent::Kind kind);

  bool is_open(End end) const { return ends_[index(end)].is_open && !is_over(end); }
  bool is_over(End end) const { return ends_[index(end)].is_over || ends_[index(end)].is_gone; }
  // A target that was never asked has nothing to end.
  bool is_finished() const {
    return is_over(End::kInitiator) && (is_over(End::kTarget) || conn(End::kTarget).value == 0);
  }
  bool is_idle(End end) const;  // all its work has completed
  bool is_half() const;         // one end lives and the other does not
  void ask_once(End end);       // one WRITE, which finds out that nobody is there
  std::string describe() const;
  // Both ends are over: releases them and checks every byte of their memory.
  void tear_down();
  // Nothing may have changed since.
  void check_afterwards();

 private:
  struct Operation {
    std::uint64_t serial = 0;
    OpKind kind = OpKind::kSend;
    Mistake mistake = Mistake::kNone;
    std::uint64_t length = 0;
    std::uint64_t from = 0;  // its bytes begin here in the stream of whoever sends them
    std::size_t slot = 0;    // WRITE: at the target; READ and atomics: here
    std::size_t cell = 0;    // atomics
    std::uint64_t old_value = 0;
    std::size_t history = 0;  // atomics: index of the cell's value after it
    bool is_unsignaled = false;
    bool has_deadline = false;
    bool is_done = false;  // completed here, and not yet by the RECEIVE it meets
  };
  struct Cell {
    std::vector<std::uint64_t> history{0};  // values in the order of the atomics posted
    std::size_t reached = 0;                // at least
  };
  static constexpr std::size_t kCells = 4;
  struct Side {
    Host* host = nullptr;
    std::uint32_t incarnation = 0;
    ConnId conn{};
    bool is_open = false;
    bool is_over = false;
    bool is_gone = false;   // its process died
    bool may_fail = false;  // operations of this end may fail
    bool is_closing = false;
    bool uses_shared_queue = false;
    // Memory. The other end writes `written`, reads `source`, adds to `cells`.
    std::optional<Block> source;
    std::optional<Block> written;
    std::optional<Block> received;
    std::optional<Block> results;
    std::optional<Block> cells;
    std::optional<Block> forbidden;  // no right for anybody
    std::array<Cell, kCells> model{};
    std::vector<std::size_t> free_written;  // slots of `written`
    std::vector<std::size_t> free_received;
    std::vector<std::size_t> free_results;
    std::size_t receives = 0;  // posted and not completed
    std::deque<Operation> outstanding{};
    std::deque<Operation> messages{};  // not yet met by a RECEIVE of the other end
    std::vector<Operation> failed{};
    std::uint64_t digest = 0;
  };

  static std::size_t index(End end) { return static_cast<std::size_t>(end); }
  Side& side(End end) { return ends_[index(end)]; }
  const Side& side(End end) const { return ends_[index(end)]; }
  std::uint64_t stream(End end) const { return 4ULL * id_ + index(end) + 1; }
  void fail(End end, const std::string& sentence);
  void set_up(End end);
  bool prepare(End end, Operation& operation, WorkRequest& work, Rng& rng);
  void prepare_atomic(End end, Operation& operation, WorkRequest& work, Rng& rng);
  void make_mistake(End end, Operation& operation, WorkRequest& work, Rng& rng);
  void give_back(End end, const Operation& operation);
  void on_request_done(End end, const Completion& one);
  void on_receive_done(End end, const Completion& one);
  void on_success(End end, const Operation& operation);
  void on_failure(End end, const Operation& operation, OpStatus status);
  void match(End end, const Completion& one, const std::byte* buffer);
  bool is_message(End end, const Operation& operation, const Completion& one,
                  const std::byte* buffer) const;
  void check_writes_before(End end, std::uint64_t serial);
  bool holds(const std::byte* at, std::uint64_t seed, const Operation& operation) const;
  bool holds_part(const std::byte* at, std::uint64_t seed, const Operation& operation) const;
  void release(End end);
  void check_memory(End end);
  std::uint64_t digest_of(Side& side);

  std::uint32_t id_;
  const Plan& plan_;
  std::array<Side, 2> ends_{};
  std::uint64_t next_serial_ = 0;
  std::uint64_t operations_ = 0;
  std::string failure_;
};

// user_data of a link's work: its id and a number; RECEIVEs name their buffer.
inline constexpr std::uint64_t kReceiveBit = 1ULL << 61;
inline std::uint32_t link_of(std::uint64_t user_data) {
  return static_cast<std::uint32_t>((user_data >> 32) & 0xffffff);
}

}  // namespace spindrift::soak
