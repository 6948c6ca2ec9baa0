#pragma once
// Takes the error of one call into a module. Internal to providers/module.
#include <optional>
#include <string>

#include "spindrift/result.h"

#include "providers/module/provider_module.h"

namespace spindrift {

class TakenError {
 public:
  ModuleErrorSink sink() { return {.report = take, .to = this}; }
  Error error() const {
    return error_.value_or(Error(ErrorCode::kIo, "the provider's module does not say why"));
  }

 private:
  static void take(void* to, std::uint32_t code, const char* text, std::size_t bytes) {
    const auto known = code <= static_cast<std::uint32_t>(ErrorCode::kIo)
                           ? static_cast<ErrorCode>(code)
                           : ErrorCode::kIo;
    static_cast<TakenError*>(to)->error_.emplace(known, std::string(text, bytes));
  }
  std::optional<Error> error_;
};

// Runs `call(sink)`, which returns false after having reported.
template <class Call>
Status called(const Call& call) {
  TakenError taken;
  const ModuleErrorSink sink = taken.sink();
  if (!call(&sink)) return taken.error();
  return ok_status();
}

}  // namespace spindrift
