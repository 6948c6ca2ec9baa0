#pragma once
// What the communicators of one process that descend from one another share: links, memory, calls
// under way, and their end. The only part that drives the endpoint.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spindrift/collective.h"

#include "collectives/links.h"
#include "collectives/memory_pool.h"
#include "collectives/run.h"
#include "collectives/shared_area.h"
#include "transport/base/fork_guard.h"

namespace spindrift::collectives {

// A communicator as the session sees it: its members and its calls by number.
struct Group {
  static constexpr std::uint32_t kSlots = Communicator::kMaxInFlight;
  std::uint8_t id = 0;
  std::uint32_t rank = 0;              // own, in the group
  std::vector<std::uint32_t> members;  // rank in the group -> rank of the links
  std::vector<std::uint32_t> ranks;    // rank of the links -> rank in the group, kNobody: not in it
  std::uint64_t started = 0;           // calls so far; the next one has this number
  std::uint64_t in_flight = 0;
  std::array<Run*, kSlots> runs{};   // by number modulo kSlots
  std::optional<SharedArea> area{};  // none: all calls go by messages
};

// An endpoint, and where it takes calls for this session.
struct Listening {
  Endpoint* endpoint = nullptr;
  ListenerId listener{};
};

// Only Release deletes it.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor)
class Session final : private LinkSink {
 public:
  // Deletes itself when the last communicator lets go of it. Not in a child of fork(): whatever it
  // gave back belongs to its parent.
  struct Release {
    void operator()(Session* session) const {
      if (!session->is_in_child() && --session->users_ == 0) delete session;
    }
  };
  using Ref = std::unique_ptr<Session, Release>;
  static Ref create(std::vector<Listening> listening, Roster roster,
                    const CommunicatorOptions& options);
  Ref share() {
    ++users_;
    return Ref(this);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Waits until the links to the neighbours in the ring of ranks stand.
  Status connect_neighbours();

  Status add_group(Group& group);
  void remove_group(Group& group);
  std::uint8_t next_group_id() const { return next_group_id_; }

  // Gives the group its part of the segments: the ranks `near` of it, those of this host, share it
  // if all of them have shown theirs.
  void use_segments(std::unique_ptr<HostSegments> segments) { segments_ = std::move(segments); }
  void make_area(Group& group, const std::vector<std::uint32_t>& near);

  // A run for the group's next call, not yet begun. Null: kMaxInFlight are under way.
  Run* new_run(const Group& group);
  // Begins what its call() says as the group's next call and returns its number; a refused call
  // gives the run back.
  Result<std::uint64_t> start(Group& group, Run& run);
  void give_back(Run& run);

  Status progress();
  // Nothing came in the last turn, and without news there is nothing to do.
  bool is_idle() const;
  // Until `is_done(argument)`.
  Status wait_until(bool (*is_done)(const void* argument), const void* argument);
  void sleep(Duration timeout, int wake_fd);

  BufferCache& buffers() { return buffers_; }
  Links& links() { return links_; }
  const CommunicatorOptions& options() const { return options_; }
  Endpoint& endpoint() { return *listening_[0].endpoint; }
  const std::optional<CommunicatorFailure>& failure() const { return failure_; }

  // Ends everything and tells the others; `rank` (of the links) is to blame, or kNobody.
  Error fail(ErrorCode code, const std::string& message, std::uint32_t rank);
  void close();
  bool is_closed() const { return is_closed_; }
  // Whether this process was forked from the one that made the session. Then the session has failed
  // and is closed here, and touches nothing that the two share.
  bool is_in_child();

 private:
  friend struct Release;
  // Came before its call was started here.
  struct Early {
    MessageHeader header{};
    std::uint32_t peer = 0;  // rank of the links
    std::vector<std::byte> payload;
  };

  Session(std::vector<Listening> listening, Roster roster, const CommunicatorOptions& options);
  ~Session() override;

  bool on_message(std::uint32_t peer, const MessageHeader& header,
                  std::span<const std::byte> payload) override;
  void on_written(std::uint32_t peer, std::uint32_t immediate, std::uint64_t bytes) override;
  void on_write_done(std::uint64_t token) override;
  void on_open(std::uint32_t peer) override;
  void on_lost(std::uint32_t peer, bool is_orderly, std::string why) override;

  Run* find_run(std::uint8_t group, std::uint32_t operation, std::uint32_t mask) const;
  bool keep_early(std::uint32_t peer, const MessageHeader& header,
                  std::span<const std::byte> payload);
  void hand_over_early(const Group& group, Run& run);
  Status want_links(const Group& group, const RunCall& call);
  void advance(Run& run);
  void settle(Run& run);
  void finish(Run& run);
  void advance_all();
  bool advance_shared();
  bool look_at_shared(bool (*is_done)(const void* argument), const void* argument);
  void set_asleep(bool is_asleep);
  void on_idle_turn();
  void be_idle();
  void ping();
  void finish_failing();
  Error missing_neighbour(std::uint32_t peer) const;
  void on_notice(std::uint32_t peer, std::span<const std::byte> payload);
  void spread(const std::string& message, std::uint32_t rank);

  const ForkGuard guard_;
  const std::vector<Listening> listening_;
  const CommunicatorOptions options_;
  const Duration spin_;  // none where ranks take one another's core
  std::size_t users_ = 1;
  // The runs use links, pool and buffers: they go first.
  Links links_;
  MemoryPool pool_;
  BufferCache buffers_;
  std::unique_ptr<HostSegments> segments_;  // null: there are none
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<Run*> free_runs_;
  std::vector<Run*> active_;     // in start order
  std::size_t shared_runs_ = 0;  // of them
  std::array<Group*, 256> groups_{};
  std::uint8_t next_group_id_ = 0;
  std::vector<Early> early_;
  std::vector<Early> spare_early_;  // their memory is used again
  Time last_movement_{};
  Time last_look_{};  // at the clock
  Time last_ping_{};
  bool has_moved_ = false;        // since last_movement_ was taken
  bool is_idle_ = false;          // nothing came in the last turn
  bool looks_at_memory_ = false;  // some call waits for what others write there
  bool is_aborted_ = false;
  bool is_closed_ = false;
  std::optional<CommunicatorFailure> failure_;
};

}  // namespace spindrift::collectives
