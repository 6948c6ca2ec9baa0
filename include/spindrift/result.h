#pragma once
// Error model. Control calls return Result<T>; data-path outcomes travel in Completion::status.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace spindrift {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // the caller's mistake
  kNotFound,         // no such connection, region, name
  kUnsupported,      // not on this provider or this host
  kNoMemory,         // a limit was reached; the message names it
  kUnavailable,      // busy or not now; trying again may help
  kTimedOut,
  kIo,  // the operating system refused; the message carries its word for it
};

// A sentence that names the value, the limit and what to do.
class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : message_(std::move(message)), code_(code) {}
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
  ErrorCode code_;
};

// A caller who takes the value without asking is told why there is none, and ends.
[[noreturn]] inline void end_without_value(const Error& error) {
  std::fprintf(stderr, "spindrift: an error was taken for a result: %s\n", error.message().c_str());
  std::abort();
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return state_.index() == 0; }
  // Only when ok(): ends the process otherwise.
  T& value() & {
    if (!ok()) end_without_value(error());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    if (!ok()) end_without_value(error());
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(value()); }
  // Only when not ok().
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

using Status = Result<std::monostate>;
inline Status ok_status() {
  return std::monostate{};
}

}  // namespace spindrift
