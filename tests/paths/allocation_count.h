#pragma once
// Counts calls of operator new in a test program that links allocation_count.cc.
#include <cstdint>

namespace spindrift::test {

std::uint64_t allocation_count();

}  // namespace spindrift::test
