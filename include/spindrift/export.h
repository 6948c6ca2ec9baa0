#pragma once
// What the shared library exports. Everything else in it is hidden.

#if defined(__GNUC__)
#define SPINDRIFT_EXPORT __attribute__((visibility("default")))
#else
#define SPINDRIFT_EXPORT
#endif
