// Debian's Abseil archives are made for programs: they reach the C library's `stderr` and `stdout`
// by a distance that no shared object can have. The linker gives them these copies instead
// (--wrap in CMakeLists.txt).
#include <cstdio>

extern "C" {
// NOLINTBEGIN: the linker's names
extern FILE* __real_stderr;
extern FILE* __real_stdout;
FILE* __wrap_stderr = nullptr;
FILE* __wrap_stdout = nullptr;
// NOLINTEND

// Before libstdc++ starts its streams on them.
__attribute__((constructor(101))) static void copy_streams() {
  __wrap_stderr = __real_stderr;
  __wrap_stdout = __real_stdout;
}
}
