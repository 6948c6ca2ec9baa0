#pragma once
// The backend "spindrift" of torch.distributed, for tensors on the CPU.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "plugins/torch/engine.h"
#include "plugins/torch/host_address.h"
#include "plugins/torch/point_to_point.h"
#include "plugins/torch/store_adapter.h"
#include "plugins/torch/work.h"

namespace spindrift::torch_plugin {

// PyTorch 2 dispatches to backends by device; before, a process group was its backend.
#if TORCH_VERSION_MAJOR >= 2
using ProcessGroupBase = c10d::Backend;
#else
using ProcessGroupBase = c10d::ProcessGroup;
#endif

class ProcessGroupSpindrift final : public ProcessGroupBase {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // Returns when all ranks have come here; connections are made behind it.
  ProcessGroupSpindrift(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                        std::chrono::milliseconds timeout);
  ~ProcessGroupSpindrift() override;

  const std::string getBackendName() const override { return "spindrift"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }

 private:
  // A call, the tensors it works on, and what is to be done with them at its end.
  struct TensorTask;

  WorkPtr launch(std::unique_ptr<TensorTask> task, c10d::OpType type, Tensors outputs,
                 std::chrono::milliseconds timeout);
  WorkPtr all_to_all_v(std::unique_ptr<TensorTask> task, c10d::OpType type, Tensors outputs,
                       std::chrono::milliseconds timeout);
  PointToPoint::Message message_of(Tensors& tensors, const char* operation) const;
  PointToPoint::Done done_with(c10::intrusive_ptr<SpindriftWork> work, const char* operation) const;
  Duration limit(std::chrono::milliseconds given) const;
  PointToPoint& point_to_point();

  StoreAdapter store_;
  const std::chrono::milliseconds timeout_;
  HostAddress address_;
  Duration spin_{};
  std::atomic<std::uint64_t> sequence_{0};
  std::uint64_t monitored_barriers_ = 0;
  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::unique_ptr<PointToPoint> point_to_point_;  // made when first used; guarded by mutex_
};

}  // namespace spindrift::torch_plugin
