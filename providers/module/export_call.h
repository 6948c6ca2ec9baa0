#pragma once
// What the functions that a module exports have in common. Internal to providers/module.
#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <string_view>

#include "spindrift/result.h"
#include "spindrift/stats.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// Reports the error, and that memory ran out, through `sink`.
void report(const ModuleErrorSink& sink, const Error& error);

// No exception leaves: set-up calls may run out of memory.
template <class Call>
bool guarded(const ModuleErrorSink& sink, const Call& call) {
  try {
    const auto result = call();
    if (result.ok()) return true;
    report(sink, result.error());
  } catch (const std::bad_alloc&) {
    report(sink, Error(ErrorCode::kNoMemory, "out of memory"));
  }
  return false;
}

template <class T>
std::size_t copy_out(std::span<const T> from, T* out, std::size_t capacity) {
  std::copy_n(from.begin(), std::min(from.size(), capacity), out);
  return from.size();
}

class ExportedCounters final : public CounterWriter {
 public:
  using Write = void (*)(void* to, const char* name, std::size_t bytes, std::uint64_t value);
  ExportedCounters(Write write, void* to) : write_(write), to_(to) {}
  void counter(std::string_view name, std::uint64_t value) override {
    write_(to_, name.data(), name.size(), value);
  }

 private:
  Write write_;
  void* to_;
};

}  // namespace spindrift
