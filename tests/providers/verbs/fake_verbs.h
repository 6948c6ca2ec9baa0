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

// Of the last dma-buf that was registered; `refusal`: an errno, 0: none.
struct FakeDmaBuf {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::uint64_t address = 0;
  int descriptor = -1;
  int access = 0;
  int registered = 0;  // and not given back
  int refusal = 0;
};
FakeDmaBuf& fake_dma_buf();

}  // namespace spindrift::test
