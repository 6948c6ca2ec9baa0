#pragma once
// NCCL's profiler hears of every transfer, where the user has loaded one.
#include <cstddef>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

void set_profiler(ProfilerCallback callback);

// One transfer; nothing happens without a profiler or without NCCL's handle for the operation.
class ProfiledEvent {
 public:
  enum class Kind : int { kSend = 0, kReceive = 1 };
  void start(void* parent, Kind kind, std::size_t bytes);
  void stop();

 private:
  void* event_ = nullptr;
  bool is_started_ = false;
};

}  // namespace spindrift::nccl
