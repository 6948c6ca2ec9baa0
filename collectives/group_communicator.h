#pragma once
// A communicator over a session that it may share with others: finds the plan of a call, and its
// buffers, and hands it to the session.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "spindrift/collective.h"

#include "collectives/call.h"
#include "collectives/planner.h"
#include "collectives/session.h"

namespace spindrift::collectives {

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(Session::Ref session, Planner planner)
      : session_(std::move(session)), planner_(std::move(planner)) {}
  ~GroupCommunicator() override { close(); }

  // Members are ranks of the links, the own one among them.
  Status join(std::uint8_t id, std::vector<std::uint32_t> members);
  // Segments of the ranks of this host, if this one has them, and which ranks have.
  void use_segments(std::unique_ptr<HostSegments> segments, std::vector<bool> has_segments);
  // The same, and finds out which ranks have.
  Status agree_on_segments(std::unique_ptr<HostSegments> segments);

  std::uint32_t rank() const override { return group_.rank; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(group_.members.size()); }

  Result<WorkId> start(const CollectiveCall& call) override;

  Status progress() override { return session_->progress(); }
  bool is_idle() const override { return session_->is_idle(); }
  bool is_done(WorkId work) const override {
    if (failure() || work.value >= group_.started) return true;
    const Run* const run = group_.runs[work.value % Group::kSlots];
    return run == nullptr || run->call().operation != static_cast<std::uint32_t>(work.value);
  }
  bool is_done() const override { return failure().has_value() || group_.in_flight == 0; }
  Status wait(WorkId work) override;
  Status wait() override;
  void sleep(Duration timeout, int wake_fd) override { session_->sleep(timeout, wake_fd); }

  Result<AlgorithmChoice> explain(const CollectiveCall& call) const override;

  Result<std::unique_ptr<Communicator>> split(std::int32_t color, std::int32_t key) override;
  Result<std::unique_ptr<Communicator>> shrink(Store& store,
                                               std::span<const std::uint32_t> survivors) override;

  void abort(std::string_view reason) override;
  const std::optional<CommunicatorFailure>& failure() const override { return session_->failure(); }

  void forget_memory() override {
    if (!session_->is_in_child()) session_->buffers().clear();
  }
  std::vector<RankLink> links() const override;

  bool is_in_child() const override { return session_->is_in_child(); }
  void close() override;

 private:
  void make_area();
  Result<PlanKey> key_of(const CollectiveCall& call, bool is_in_place) const;

  Result<AlgorithmChoice> explain_transfers(const CollectiveCall& call) const;
  // Finds or makes the plan, and the buffers' registrations.
  Status prepare(const CollectiveCall& call, Run& run, RunCall& ready);
  Status prepare_transfers(const CollectiveCall& call, Run& run, RunCall& ready);
  Status register_buffers(const CallBuffers& buffers, Run& run, RunCall& ready);

  Session::Ref session_;
  Planner planner_;
  Group group_;
  bool is_closed_ = false;
};

}  // namespace spindrift::collectives
