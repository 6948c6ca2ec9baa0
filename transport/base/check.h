#pragma once
// Assertions about ourselves. Never about anything a peer or a caller said.
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace spindrift {

// Called once, after a failed check was reported and before the process ends: writes what the
// flight recorders hold (live_recorders.cc). Null while there are none.
inline std::atomic<void (*)()> before_abort{nullptr};

[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* file, int line,
                                                                const char* what) {
  std::fprintf(stderr, "%s:%d: internal check failed: %s\n", file, line, what);
  if (void (*const write)() = before_abort.exchange(nullptr)) write();
  std::abort();
}

}  // namespace spindrift

#define SPINDRIFT_CHECK(condition)                               \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::spindrift::check_failed(__FILE__, __LINE__, #condition); \
  } while (false)

#ifdef NDEBUG
#define SPINDRIFT_DCHECK(condition) \
  do {                              \
  } while (false && (condition))
#else
#define SPINDRIFT_DCHECK(condition) SPINDRIFT_CHECK(condition)
#endif
