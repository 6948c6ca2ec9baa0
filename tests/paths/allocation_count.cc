#include "tests/paths/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {
std::uint64_t count = 0;
}

std::uint64_t spindrift::test::allocation_count() {
  return count;
}

void* operator new(std::size_t bytes) {
  ++count;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
