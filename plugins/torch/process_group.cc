// The backend, and the module that registers it. The only file that compiles PyTorch's headers.
#include "plugins/torch/process_group.h"

#include <numeric>
#include <thread>

#include <pybind11/chrono.h>
#include <torch/extension.h>

#include "plugins/torch/tensors.h"

namespace spindrift::torch_plugin {
namespace {

constexpr Duration kSpin = std::chrono::microseconds(20);
// Of the ranks that wait for rank 0's verdict, beyond its own patience.
constexpr Duration kVerdictGrace = std::chrono::seconds(5);

std::string in_group(int rank, int size) {
  return " (rank " + std::to_string(rank) + " of " + std::to_string(size) + ")";
}

std::int64_t elements_of(const std::vector<at::Tensor>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t sum, const at::Tensor& one) { return sum + one.numel(); });
}

// Copies pieces of `flat`, one after the other, into the tensors.
void unpack(const at::Tensor& flat, std::vector<at::Tensor>& tensors) {
  std::int64_t first = 0;
  for (at::Tensor& tensor : tensors) {
    tensor.view(-1).copy_(flat.narrow(0, first, tensor.numel()));
    first += tensor.numel();
  }
}

at::Tensor pack(const std::vector<at::Tensor>& tensors) {
  at::Tensor flat = at::empty({elements_of(tensors)}, tensors.front().options());
  std::int64_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    flat.narrow(0, first, tensor.numel()).copy_(tensor.view(-1));
    first += tensor.numel();
  }
  return flat;
}

}  // namespace

struct ProcessGroupSpindrift::TensorTask final : Task {
  at::Tensor input;   // what the call reads
  at::Tensor output;  // what it writes; may be the input
  std::function<void()> after;
  std::vector<std::uint64_t> input_counts, input_offsets, output_counts, output_offsets;

  TensorTask(const char* operation, Collective collective) {
    name = operation;
    call.collective = collective;
  }
  void use(const at::Tensor& from, const at::Tensor& to) {
    input = from;
    output = to;
    call.input = from.defined() ? from.data_ptr() : nullptr;
    call.output = to.defined() ? to.data_ptr() : nullptr;
  }
  // Nothing is computed, so elements are bytes.
  void count_bytes(const at::Tensor& part) {
    call.type = DataType::kUint8;
    call.count = part.nbytes();
  }
  void reduce(const at::Tensor& part, const c10d::ReduceOp& op) {
    const Reduction reduction = reduction_of(part, op);
    call.type = reduction.type;
    call.op = reduction.op;
    call.count = static_cast<std::uint64_t>(part.numel());
  }
};

ProcessGroupSpindrift::ProcessGroupSpindrift(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                             int size, std::chrono::milliseconds timeout)
    : ProcessGroupBase(rank, size), store_(store), timeout_(timeout) {
  Result<HostAddress> address =
      agree_on_address(store_, "spindrift", static_cast<std::uint32_t>(rank),
                       static_cast<std::uint32_t>(size), limit(timeout));
  TORCH_CHECK(address.ok(), "spindrift: ", address.ok() ? "" : address.error().message());
  address_ = std::move(address).value();
  // Polling ranks would take the processor from those that compute.
  const bool has_idle_cores = std::thread::hardware_concurrency() >= 2 * address_.local_ranks;
  spin_ = has_idle_cores ? kSpin : Duration::zero();
  engine_ =
      std::make_unique<Engine>(store_, EngineOptions{.rank = static_cast<std::uint32_t>(rank),
                                                     .ranks = static_cast<std::uint32_t>(size),
                                                     .name = "spindrift",
                                                     .address = address_.address,
                                                     .timeout = limit(timeout),
                                                     .spin = spin_,
                                                     .on_note = [](const std::string& sentence) {
                                                       TORCH_WARN("spindrift: ", sentence);
                                                     }});
}

ProcessGroupSpindrift::~ProcessGroupSpindrift() {
  // The threads may be about to call back into Python.
  if (PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release released;
    point_to_point_.reset();
    engine_.reset();
  }
}

Duration ProcessGroupSpindrift::limit(std::chrono::milliseconds given) const {
  return given > std::chrono::milliseconds::zero() ? given : timeout_;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::launch(std::unique_ptr<TensorTask> task,
                                                             c10d::OpType type, Tensors outputs,
                                                             std::chrono::milliseconds timeout) {
  ++sequence_;
  auto work =
      c10::make_intrusive<SpindriftWork>(getRank(), type, task->name.c_str(), std::move(outputs));
  task->timeout = limit(timeout);
  task->done = [work, raw = task.get(),
                who = in_group(getRank(), getSize())](const Status& status) {
    if (!status.ok()) {
      work->fail("spindrift " + raw->name + who + ": " + status.error().message());
      return;
    }
    if (raw->after) raw->after();
    work->complete();
  };
  engine_->submit(std::move(task));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "broadcast");
  auto task = std::make_unique<TensorTask>("broadcast", Collective::kBroadcast);
  task->use(tensor, tensor);
  task->count_bytes(tensor);
  task->call.root = static_cast<std::uint32_t>(options.rootRank);
  return launch(std::move(task), c10d::OpType::BROADCAST, tensors, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "allreduce");
  auto task = std::make_unique<TensorTask>("allreduce", Collective::kAllReduce);
  task->use(tensor, tensor);
  task->reduce(tensor, options.reduceOp);
  return launch(std::move(task), c10d::OpType::ALLREDUCE, tensors, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "spindrift allreduce_coalesced: no tensor");
  for (const at::Tensor& tensor : tensors)
    check_all({tensor}, tensors.front(), tensor.numel(), "allreduce_coalesced");
  auto task = std::make_unique<TensorTask>("allreduce_coalesced", Collective::kAllReduce);
  const at::Tensor flat = pack(tensors);
  task->use(flat, flat);
  task->reduce(flat, options.reduceOp);
  task->after = [flat, tensors]() mutable { unpack(flat, tensors); };
  return launch(std::move(task), c10d::OpType::ALLREDUCE_COALESCED, tensors, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::reduce(Tensors& tensors,
                                                             const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "reduce");
  auto task = std::make_unique<TensorTask>("reduce", Collective::kReduce);
  task->use(tensor, options.rootRank == getRank() ? tensor : at::Tensor());
  task->reduce(tensor, options.reduceOp);
  task->call.root = static_cast<std::uint32_t>(options.rootRank);
  return launch(std::move(task), c10d::OpType::REDUCE, tensors, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only_tensor(inputs, "allgather");
  TORCH_CHECK(outputs.size() == 1 && outputs.front().size() == static_cast<std::size_t>(getSize()),
              "spindrift allgather: one list of as many tensors as there are ranks is needed");
  Tensors& parts = outputs.front();
  check_all(parts, input, input.numel(), "allgather");
  auto task = std::make_unique<TensorTask>("allgather", Collective::kAllGather);
  const at::Tensor flat = at::empty({input.numel() * getSize()}, input.options());
  task->use(input, flat);
  task->count_bytes(input);
  task->after = [flat, parts]() mutable { unpack(flat, parts); };
  return launch(std::move(task), c10d::OpType::ALLGATHER, parts, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  check_tensor(input, "_allgather_base");
  check_all({output}, input, input.numel() * getSize(), "_allgather_base");
  auto task = std::make_unique<TensorTask>("_allgather_base", Collective::kAllGather);
  task->use(input, output);
  task->count_bytes(input);
  return launch(std::move(task), c10d::OpType::_ALLGATHER_BASE, {output}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::gather(std::vector<Tensors>& outputs,
                                                             Tensors& inputs,
                                                             const c10d::GatherOptions& options) {
  const at::Tensor& input = only_tensor(inputs, "gather");
  auto task = std::make_unique<TensorTask>("gather", Collective::kGather);
  task->call.root = static_cast<std::uint32_t>(options.rootRank);
  Tensors parts;
  if (options.rootRank == getRank()) {
    TORCH_CHECK(
        outputs.size() == 1 && outputs.front().size() == static_cast<std::size_t>(getSize()),
        "spindrift gather: the root needs one list of as many tensors as there are ranks");
    parts = outputs.front();
    check_all(parts, input, input.numel(), "gather");
    const at::Tensor flat = at::empty({input.numel() * getSize()}, input.options());
    task->use(input, flat);
    task->after = [flat, parts]() mutable { unpack(flat, parts); };
  } else {
    TORCH_CHECK(outputs.empty(), "spindrift gather: only the root has outputs");
    task->use(input, at::Tensor());
  }
  task->count_bytes(input);
  return launch(std::move(task), c10d::OpType::GATHER, parts, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::scatter(Tensors& outputs,
                                                              std::vector<Tensors>& inputs,
                                                              const c10d::ScatterOptions& options) {
  const at::Tensor& output = only_tensor(outputs, "scatter");
  auto task = std::make_unique<TensorTask>("scatter", Collective::kScatter);
  task->call.root = static_cast<std::uint32_t>(options.rootRank);
  if (options.rootRank == getRank()) {
    TORCH_CHECK(inputs.size() == 1 && inputs.front().size() == static_cast<std::size_t>(getSize()),
                "spindrift scatter: the root needs one list of as many tensors as there are ranks");
    check_all(inputs.front(), output, output.numel(), "scatter");
    task->use(pack(inputs.front()), output);
  } else {
    TORCH_CHECK(inputs.empty(), "spindrift scatter: only the root has inputs");
    task->use(at::Tensor(), output);
  }
  task->count_bytes(output);
  return launch(std::move(task), c10d::OpType::SCATTER, outputs, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only_tensor(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1 && inputs.front().size() == static_cast<std::size_t>(getSize()),
              "spindrift reduce_scatter: one list of as many tensors as there are ranks is needed");
  check_all(inputs.front(), output, output.numel(), "reduce_scatter");
  auto task = std::make_unique<TensorTask>("reduce_scatter", Collective::kReduceScatter);
  task->use(pack(inputs.front()), output);
  task->reduce(output, options.reduceOp);
  return launch(std::move(task), c10d::OpType::REDUCE_SCATTER, outputs, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_tensor(output, "_reduce_scatter_base");
  check_all({input}, output, output.numel() * getSize(), "_reduce_scatter_base");
  auto task = std::make_unique<TensorTask>("_reduce_scatter_base", Collective::kReduceScatter);
  task->use(input, output);
  task->reduce(output, options.reduceOp);
  return launch(std::move(task), c10d::OpType::_REDUCE_SCATTER_BASE, {output}, options.timeout);
}

// With the counts, in bytes, in place.
c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::all_to_all_v(
    std::unique_ptr<TensorTask> task, c10d::OpType type, Tensors outputs,
    std::chrono::milliseconds timeout) {
  TensorTask& raw = *task;
  raw.input_offsets.resize(raw.input_counts.size());
  raw.output_offsets.resize(raw.output_counts.size());
  std::exclusive_scan(raw.input_counts.begin(), raw.input_counts.end(), raw.input_offsets.begin(),
                      std::uint64_t{0});
  std::exclusive_scan(raw.output_counts.begin(), raw.output_counts.end(),
                      raw.output_offsets.begin(), std::uint64_t{0});
  raw.call.type = DataType::kUint8;
  raw.call.input_counts = raw.input_counts;
  raw.call.input_offsets = raw.input_offsets;
  raw.call.output_counts = raw.output_counts;
  raw.call.output_offsets = raw.output_offsets;
  return launch(std::move(task), type, std::move(outputs), timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const auto ranks = static_cast<std::size_t>(getSize());
  TORCH_CHECK(outputs.size() == ranks && inputs.size() == ranks,
              "spindrift alltoall: as many inputs and outputs as there are ranks are needed");
  auto task = std::make_unique<TensorTask>("alltoall", Collective::kAllToAllV);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    check_all({inputs[rank]}, inputs.front(), inputs[rank].numel(), "alltoall");
    check_all({outputs[rank]}, inputs.front(), outputs[rank].numel(), "alltoall");
    task->input_counts.push_back(inputs[rank].nbytes());
    task->output_counts.push_back(outputs[rank].nbytes());
  }
  const at::Tensor flat = at::empty({elements_of(outputs)}, outputs.front().options());
  task->use(pack(inputs), flat);
  task->after = [flat, outputs]() mutable { unpack(flat, outputs); };
  return all_to_all_v(std::move(task), c10d::OpType::ALLTOALL, outputs, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  check_tensor(output, "alltoall_base");
  check_all({input}, output, input.numel(), "alltoall_base");
  auto task = std::make_unique<TensorTask>("alltoall_base", Collective::kAllToAllV);
  const auto split = [this](const at::Tensor& tensor, const std::vector<int64_t>& splits,
                            std::vector<std::uint64_t>& counts) {
    const auto ranks = static_cast<std::size_t>(getSize());
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const std::uint64_t row_bytes =
        rows == 0 ? 0 : tensor.nbytes() / static_cast<std::uint64_t>(rows);
    TORCH_CHECK(splits.empty()
                    ? rows % getSize() == 0
                    : splits.size() == ranks &&
                          std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == rows,
                "spindrift alltoall_base: ", rows, " rows are not split among ", ranks, " ranks");
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t part = splits.empty() ? rows / getSize() : splits[rank];
      counts.push_back(static_cast<std::uint64_t>(part) * row_bytes);
    }
  };
  split(input, input_splits, task->input_counts);
  split(output, output_splits, task->output_counts);
  task->use(input, output);
  return all_to_all_v(std::move(task), c10d::OpType::ALLTOALL_BASE, {output}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::barrier(const c10d::BarrierOptions& options) {
  return launch(std::make_unique<TensorTask>("barrier", Collective::kBarrier),
                c10d::OpType::BARRIER, {}, options.timeout);
}

PointToPoint& ProcessGroupSpindrift::point_to_point() {
  const std::lock_guard lock(mutex_);
  if (point_to_point_ == nullptr) {
    point_to_point_ = std::make_unique<PointToPoint>(
        store_, PointToPointOptions{.rank = static_cast<std::uint32_t>(getRank()),
                                    .ranks = static_cast<std::uint32_t>(getSize()),
                                    .name = "spindrift",
                                    .address = address_.address,
                                    .spin = spin_});
  }
  return *point_to_point_;
}

PointToPoint::Message ProcessGroupSpindrift::message_of(Tensors& tensors,
                                                        const char* operation) const {
  const at::Tensor& tensor = only_tensor(tensors, operation);
  return {.data = tensor.data_ptr(), .bytes = tensor.nbytes(), .timeout = timeout_};
}

PointToPoint::Done ProcessGroupSpindrift::done_with(c10::intrusive_ptr<SpindriftWork> work,
                                                    const char* operation) const {
  return [work = std::move(work), what = std::string(operation),
          who = in_group(getRank(), getSize())](const Result<std::uint32_t>& rank) {
    if (rank.ok()) {
      work->complete_from(static_cast<int>(rank.value()));
    } else {
      work->fail("spindrift " + what + who + ": " + rank.error().message());
    }
  };
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::send(Tensors& tensors, int to, int tag) {
  const PointToPoint::Message message = message_of(tensors, "send");
  auto work = c10::make_intrusive<SpindriftWork>(getRank(), c10d::OpType::SEND, "send", tensors);
  point_to_point().send(static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(tag), message,
                        done_with(work, "send"));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::recv(Tensors& tensors, int from, int tag) {
  const PointToPoint::Message message = message_of(tensors, "recv");
  auto work = c10::make_intrusive<SpindriftWork>(getRank(), c10d::OpType::RECV, "recv", tensors);
  point_to_point().receive(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(tag),
                           message, done_with(work, "recv"));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupSpindrift::recvAnysource(Tensors& tensors, int tag) {
  const PointToPoint::Message message = message_of(tensors, "recvAnysource");
  auto work = c10::make_intrusive<SpindriftWork>(getRank(), c10d::OpType::RECVANYSOURCE,
                                                 "recvAnysource", tensors);
  point_to_point().receive(std::nullopt, static_cast<std::uint32_t>(tag), message,
                           done_with(work, "recvAnysource"));
  return work;
}

// Through the store, because it must name who is missing.
void ProcessGroupSpindrift::monitoredBarrier(const c10d::BarrierOptions& options,
                                             bool wait_all_ranks) {
  const Duration patience = limit(options.timeout);
  const std::string base = "spindrift/barrier/" + std::to_string(monitored_barriers_++) + "/";
  const auto must = [](const Status& status) {
    TORCH_CHECK(status.ok(), "spindrift: ", status.ok() ? "" : status.error().message());
  };
  must(store_.set(base + std::to_string(getRank()), "here"));
  if (getRank() != 0) {
    const Result<std::string> verdict = store_.get(base + "verdict", patience + kVerdictGrace);
    TORCH_CHECK(verdict.ok(), "spindrift monitoredBarrier: rank 0 did not come");
    TORCH_CHECK(verdict.value().empty(), verdict.value());
    return;
  }
  const Time deadline = clock_now() + patience;
  std::string missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    const Duration left = std::max<Duration>(deadline - clock_now(), Duration::zero());
    if (store_.get(base + std::to_string(rank), left).ok()) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    if (!wait_all_ranks) break;
  }
  const std::string verdict =
      missing.empty() ? std::string()
                      : "spindrift monitoredBarrier: rank " + missing + " did not come within " +
                            std::to_string(std::chrono::duration<double>(patience).count()) + " s";
  must(store_.set(base + "verdict", verdict));
  TORCH_CHECK(verdict.empty(), verdict);
}

c10::intrusive_ptr<ProcessGroupBase> create(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<ProcessGroupSpindrift>(store, rank, size, timeout);
}

}  // namespace spindrift::torch_plugin

PYBIND11_MODULE(spindrift_torch, module) {
  module.doc() = "Registers the backend \"spindrift\" of torch.distributed.";
  module.def("create", &spindrift::torch_plugin::create,
             pybind11::call_guard<pybind11::gil_scoped_release>());
  const pybind11::object register_backend =
      pybind11::module::import("torch.distributed").attr("Backend").attr("register_backend");
#if TORCH_VERSION_MAJOR >= 2
  pybind11::dict options;
  options["devices"] = std::vector<std::string>{"cpu"};
  register_backend("spindrift", module.attr("create"), **options);
#else
  register_backend("spindrift", module.attr("create"));
#endif
}
