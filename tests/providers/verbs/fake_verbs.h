#pragma once
// A device that no machine here has: one port, InfiniBand or not, that remembers how its queue
// pairs were set up. A program that links this has it in place of libibverbs's devices; what is not
// about devices is still the library's own.
#include <cstdint>
#include <vector>

#include <infiniband/verbs.h>

namespace spindrift::test {

struct FakePort {
  bool is_infiniband = true;
  bool requires_grh = false;
  std::uint16_t lid = 17;
  std::uint64_t subnet = 0xfe80000000000000;
};
FakePort& fake_port();

// What ibv_modify_qp() was given, oldest first.
struct FakeStep {
  ibv_qp_attr attributes;
  int mask;
};
std::vector<FakeStep>& fake_steps();

}  // namespace spindrift::test
