#pragma once
// What a child of fork() must not do: it has the memory and the descriptors of its parent, but
// neither its threads nor its place in the protocol.
#include <cstdint>

namespace spindrift::collectives {

// Remembers the process that made it, without a system call at each look.
class ForkGuard final {
 public:
  static constexpr const char* kSentence =
      "this process was forked from the one that made the communicator, and cannot use it; make "
      "one of its own, or start the process anew (spawn)";

  ForkGuard();
  // Whether this is a child, made by fork() since.
  bool is_in_child() const;

 private:
  std::uint32_t generation_;
};

}  // namespace spindrift::collectives
