#include "plugins/nccl/profile.h"

#include <atomic>

namespace spindrift::nccl {
namespace {

// Which descriptor follows: type in the upper 16 bits, version in the lower. Ours is that of
// sockets: descriptor number, operation, length.
constexpr std::int64_t kSocketPlugin = 2LL << 16 | 1;

struct SocketDescriptor {
  std::uint8_t type = 0;  // a socket's operation
  struct {
    int fd = -1;
    int op = 0;
    std::size_t length = 0;
  } socket;
};

std::atomic<ProfilerCallback>& current() {
  static std::atomic<ProfilerCallback> callback{nullptr};
  return callback;
}

}  // namespace

void set_profiler(ProfilerCallback callback) {
  current().store(callback, std::memory_order_release);
}

void ProfiledEvent::start(void* parent, Kind kind, std::size_t bytes) {
  const ProfilerCallback callback = current().load(std::memory_order_acquire);
  event_ = nullptr;
  is_started_ = callback != nullptr && parent != nullptr;
  if (!is_started_) return;
  SocketDescriptor descriptor;
  descriptor.socket.op = static_cast<int>(kind);
  descriptor.socket.length = bytes;
  static_cast<void>(callback(&event_, kProfileStart, parent, kSocketPlugin, &descriptor));
}

void ProfiledEvent::stop() {
  if (!is_started_) return;
  is_started_ = false;
  const ProfilerCallback callback = current().load(std::memory_order_acquire);
  if (callback != nullptr)
    static_cast<void>(callback(&event_, kProfileStop, nullptr, kSocketPlugin, nullptr));
}

}  // namespace spindrift::nccl
