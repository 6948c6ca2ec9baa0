#pragma once
// What a child of fork() must not do: it has the memory and the descriptors of its parent, but
// neither its threads nor its place in the protocol.
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace spindrift {

// Remembers the process that made it, without a system call at each look.
class ForkGuard final {
 public:
  // For who tries: `what` is what the parent made, "communicator".
  static std::string sentence(std::string_view what);

  ForkGuard();
  // Whether this is a child, made by fork() since.
  bool is_in_child() const { return forks_.load(std::memory_order_relaxed) != generation_; }

 private:
  // Forks between the first guard and this process. The only variable of its kind: fork() can be
  // heard of by no other means.
  static inline std::atomic<std::uint32_t> forks_{0};  // NOLINT(readability-identifier-naming)

  std::uint32_t generation_;
};

}  // namespace spindrift
