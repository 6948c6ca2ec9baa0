#pragma once
// What PyTorch waits for.
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace spindrift::torch_plugin {

class SpindriftWork final : public c10d::Work {
 public:
  SpindriftWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> outputs)
      : Work(rank, type, title, outputs),
        outputs_(std::move(outputs)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  // Once either of these, from any thread.
  void complete() {
    future_->markCompleted(c10::IValue(outputs_));
    finish();
  }
  void complete_from(int source) {
    source_ = source;
    complete();
  }
  void fail(const std::string& message) {
    const std::exception_ptr exception = std::make_exception_ptr(std::runtime_error(message));
    future_->setError(exception);
    finish(exception);
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override { return source_; }

 private:
  const std::vector<at::Tensor> outputs_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace spindrift::torch_plugin
