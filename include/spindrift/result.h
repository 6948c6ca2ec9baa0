#pragma once
// Error model. Control calls return Result<T>; data-path outcomes travel in Completion::status.
#include <cstdint>
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

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return state_.index() == 0; }
  // Only when ok().
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
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
