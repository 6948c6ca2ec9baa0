#pragma once
// Leaves out the copies of one length, to see what an engine costs beside them. Works for programs
// linked with -Wl,--wrap=memcpy, and for lengths that the compiler does not know: it makes those
// calls of memcpy.
#include <cstddef>
#include <cstdint>

namespace spindrift::bench {

void skip_copies_of(std::size_t bytes);  // 0: of none
std::uint64_t skipped_copies();          // so far

}  // namespace spindrift::bench
