#pragma once
// What the functions of the C API share: sizes of structs, sentences, exceptions kept inside.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "spindrift/c_api.h"
#include "spindrift/endpoint.h"
#include "spindrift/tunables.h"

// The opaque handle.
struct spindrift_endpoint {
  std::unique_ptr<spindrift::Endpoint> endpoint;
};

namespace spindrift::c_api {

// Remembers the sentence for spindrift_last_error() and returns the code.
int fail(int code, std::string sentence);
int fail(const Error& error);
int code_of(ErrorCode code);
int code_of(const Status& status);

// Calls a function; what it throws becomes a code and a sentence.
template <class Result, class Function>
Result guarded(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(SPINDRIFT_NO_MEMORY, "the process is out of memory");
  } catch (const std::exception& error) {
    return fail(SPINDRIFT_INTERNAL, error.what());
  } catch (...) {
    return fail(SPINDRIFT_INTERNAL, "a callback threw");
  }
}

// The same with the endpoint behind a handle.
template <class Result = int, class Function>
Result with_endpoint(spindrift_endpoint* handle, Function function) noexcept {
  return guarded<Result>([&]() -> Result {
    if (handle == nullptr) return fail(SPINDRIFT_INVALID_ARGUMENT, "the endpoint is NULL");
    return function(*handle->endpoint);
  });
}

// A struct of the interface: its name, and the size below which too much of it is missing.
template <class T>
struct Stamp;

#define SPINDRIFT_STAMP(type, first_optional)                                \
  template <>                                                                \
  struct Stamp<type> {                                                       \
    static constexpr std::string_view kName = #type;                         \
    static constexpr std::size_t kSmallest = offsetof(type, first_optional); \
    static_assert(sizeof(type) % 8 == 0, "no padding at the end");           \
  }
SPINDRIFT_STAMP(spindrift_open_options, capture);
SPINDRIFT_STAMP(spindrift_register_options, is_line_ordered);
SPINDRIFT_STAMP(spindrift_connect_options, path_selector);
SPINDRIFT_STAMP(spindrift_listen_options, backlog);
SPINDRIFT_STAMP(spindrift_region, remote_base);
SPINDRIFT_STAMP(spindrift_remote_region, base);
SPINDRIFT_STAMP(spindrift_event, listener);
SPINDRIFT_STAMP(spindrift_conn_info, local_address);
SPINDRIFT_STAMP(spindrift_work, operand);
SPINDRIFT_STAMP(spindrift_completion, immediate);
SPINDRIFT_STAMP(spindrift_path_report, packets_sent);
#undef SPINDRIFT_STAMP

// SPINDRIFT_OK, or the refusal of a size that no version of the struct has.
int check_size(std::string_view name, std::size_t given, std::size_t smallest);
// Refuses bytes other than zero behind what this library knows.
int check_tail(std::string_view name, const void* given, std::size_t given_bytes,
               std::size_t known_bytes);
int refuse_null(std::string_view name);

template <class T>
int check_out(const T* out) {
  if (out == nullptr) return refuse_null(Stamp<T>::kName);
  return check_size(Stamp<T>::kName, out->struct_size, Stamp<T>::kSmallest);
}

// Reads what the caller knows over the defaults in `out`.
template <class T>
int read_struct(const T* given, T& out) {
  int code = check_out(given);
  if (code != SPINDRIFT_OK) return code;
  code = check_tail(Stamp<T>::kName, given, given->struct_size, sizeof(T));
  if (code != SPINDRIFT_OK) return code;
  std::memcpy(static_cast<void*>(&out), given, std::min(given->struct_size, sizeof(T)));
  out.struct_size = sizeof(T);
  return SPINDRIFT_OK;
}

// Fills in what the caller has room for; what it knows beyond that becomes zero.
template <class T>
void write_struct(T from, std::size_t room_bytes, void* out) {
  from.struct_size = room_bytes;
  std::memcpy(out, &from, std::min(room_bytes, sizeof(T)));
  if (room_bytes > sizeof(T))
    std::memset(static_cast<char*>(out) + sizeof(T), 0, room_bytes - sizeof(T));
}

// Fills options with defaults for a caller whose struct has `room_bytes`.
template <class T>
int init_struct(T* out, std::size_t room_bytes, const T& defaults) {
  if (out == nullptr) return refuse_null(Stamp<T>::kName);
  const int code = check_size(Stamp<T>::kName, room_bytes, Stamp<T>::kSmallest);
  if (code == SPINDRIFT_OK) write_struct(defaults, room_bytes, out);
  return code;
}

// Element `index` of the caller's array, whose elements have the size of the first.
template <class T>
T* element(T* array, std::size_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(array) + index * array->struct_size);
}

// The length of the text, as much of it as fits in `buffer`.
std::size_t copy_text(std::string_view text, char* buffer, std::size_t capacity);
template <std::size_t kBytes>
void copy_text(std::string_view text, char (&buffer)[kBytes]) {
  copy_text(text, buffer, kBytes);
}

// What files and the environment say, read at the first call.
const Result<Settings>& process_settings();

// The same, where the defaults are made by `defaults` of the settings of the process.
template <class T, class Defaults>
int init_from_settings(T* out, std::size_t room_bytes, Defaults defaults) noexcept {
  return guarded<int>([&]() -> int {
    const Result<Settings>& settings = process_settings();
    if (!settings.ok()) return fail(settings.error());
    return init_struct(out, room_bytes, defaults(settings.value()));
  });
}

// Options of the C++ API: what the caller gives over what the settings of the process say.
int read_options(const spindrift_connect_options* given, ConnectOptions& out);
Duration timeout_of(std::int64_t ns);

}  // namespace spindrift::c_api
