#include "plugins/c_structs.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace spindrift::c_api {
namespace {

// More than any version of a struct will have.
constexpr std::size_t kSaneBytes = 65536;

std::string& sentence_of_this_thread() {
  thread_local std::string sentence;
  return sentence;
}

spindrift_connect_options c_options(const ConnectOptions& o) {
  spindrift_connect_options out{};
  out.struct_size = sizeof(out);
  out.path_count = o.path_count;
  out.burst_bytes = o.burst_bytes;
  out.max_payload_mtu = o.max_payload_mtu;
  out.crc = static_cast<std::uint32_t>(o.crc);
  out.dscp = o.dscp;
  out.control_dscp = o.control_dscp;
  out.shared_receive_queue = o.shared_receive_queue.value;
  out.connect_timeout_ns = o.connect_timeout.count();
  out.default_timeout_ns = o.default_timeout.count();
  out.close_timeout_ns = o.close_timeout.count();
  out.silence_limit_ns = o.silence_limit.count();
  out.silence_limit_passive_ns = o.silence_limit_passive.count();
  out.keepalive_ns = o.keepalive.count();
  out.rto_min_ns = o.rto_min.count();
  out.rto_max_ns = o.rto_max.count();
  out.base_rtt_ns = o.base_rtt.count();
  out.link_rate_bps = o.link_rate.bits_per_second();
  return out;
}

int check_options(const spindrift_connect_options& c) {
  if (c.reserved != 0)
    return fail(SPINDRIFT_INVALID_ARGUMENT, "spindrift_connect_options.reserved must be 0");
  if (c.crc > SPINDRIFT_CRC_OFF)
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                absl::StrFormat("spindrift_connect_options.crc is %d; it must be 0..2", c.crc));
  if (c.dscp > 63 || c.control_dscp > 63)
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                absl::StrFormat("spindrift_connect_options.dscp is %d and control_dscp %d; they "
                                "must be 0..63",
                                c.dscp, c.control_dscp));
  if ((c.private_bytes != 0 && c.private_data == nullptr) ||
      (c.local_address_count != 0 && c.local_addresses == nullptr))
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                "spindrift_connect_options counts bytes or addresses that are NULL");
  if (c.private_bytes > SPINDRIFT_PRIVATE_BYTES)
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                absl::StrFormat("spindrift_connect_options.private_bytes is %d; at most %d fit",
                                c.private_bytes, SPINDRIFT_PRIVATE_BYTES));
  for (std::size_t i = 0; i < c.local_address_count; ++i)
    if (c.local_addresses[i] == nullptr)
      return fail(SPINDRIFT_INVALID_ARGUMENT,
                  absl::StrFormat("spindrift_connect_options.local_addresses[%d] is NULL", i));
  return SPINDRIFT_OK;
}

}  // namespace

int fail(int code, std::string sentence) {
  sentence_of_this_thread() = std::move(sentence);
  return code;
}

int fail(const Error& error) {
  return fail(code_of(error.code()), error.message());
}

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return SPINDRIFT_INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return SPINDRIFT_NOT_FOUND;
    case ErrorCode::kUnsupported:
      return SPINDRIFT_UNSUPPORTED;
    case ErrorCode::kNoMemory:
      return SPINDRIFT_NO_MEMORY;
    case ErrorCode::kUnavailable:
      return SPINDRIFT_UNAVAILABLE;
    case ErrorCode::kTimedOut:
      return SPINDRIFT_TIMED_OUT;
    case ErrorCode::kIo:
      return SPINDRIFT_IO;
  }
  return SPINDRIFT_INTERNAL;
}

int code_of(const Status& status) {
  return status.ok() ? SPINDRIFT_OK : fail(status.error());
}

int check_size(std::string_view name, std::size_t given, std::size_t smallest) {
  if (given >= smallest && given <= kSaneBytes && given % 8 == 0) return SPINDRIFT_OK;
  return fail(SPINDRIFT_INVALID_ARGUMENT,
              absl::StrFormat("%s.struct_size is %d; it must be sizeof(%s), a multiple of 8 and at "
                              "least %d",
                              name, given, name, smallest));
}

int check_tail(std::string_view name, const void* given, std::size_t given_bytes,
               std::size_t known_bytes) {
  const char* bytes = static_cast<const char*>(given);
  for (std::size_t i = known_bytes; i < given_bytes; ++i)
    if (bytes[i] != 0)
      return fail(
          SPINDRIFT_INVALID_ARGUMENT,
          absl::StrFormat("%s: this library (%s) knows %d bytes of the %d given, and byte %d "
                          "is not 0. The caller asks for something newer; use a newer "
                          "library, or leave it 0",
                          name, spindrift_version(), known_bytes, given_bytes, i));
  return SPINDRIFT_OK;
}

int refuse_null(std::string_view name) {
  return fail(SPINDRIFT_INVALID_ARGUMENT, absl::StrFormat("the pointer to %s is NULL", name));
}

std::size_t copy_text(std::string_view text, char* buffer, std::size_t capacity) {
  if (buffer != nullptr && capacity != 0) {
    const std::size_t count = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), count);
    buffer[count] = '\0';
  }
  return text.size();
}

const Result<Settings>& process_settings() {
  static const Result<Settings> settings = load_settings();
  return settings;
}

int read_options(const spindrift_connect_options* given, ConnectOptions& out) {
  const Result<Settings>& settings = process_settings();
  if (!settings.ok()) return fail(settings.error());
  out = settings.value().connect;
  if (given == nullptr) return SPINDRIFT_OK;
  spindrift_connect_options c = c_options(out);
  int code = read_struct(given, c);
  if (code == SPINDRIFT_OK) code = check_options(c);
  if (code != SPINDRIFT_OK) return code;
  if (c.congestion_control != nullptr) out.congestion_control = c.congestion_control;
  if (c.path_selector != nullptr) out.path_selector = c.path_selector;
  if (c.loss_rule != nullptr) out.loss_rule = c.loss_rule;
  const auto* bytes = static_cast<const std::byte*>(c.private_data);
  if (c.private_bytes != 0) out.private_data.assign(bytes, bytes + c.private_bytes);
  if (c.local_address_count != 0) out.local_addresses.clear();
  for (std::size_t i = 0; i < c.local_address_count; ++i)
    out.local_addresses.emplace_back(c.local_addresses[i]);
  out.path_count = c.path_count;
  out.burst_bytes = c.burst_bytes;
  out.max_payload_mtu = c.max_payload_mtu;
  out.crc = static_cast<CrcChoice>(c.crc);
  out.dscp = static_cast<std::uint8_t>(c.dscp);
  out.control_dscp = static_cast<std::uint8_t>(c.control_dscp);
  out.shared_receive_queue = SharedQueueId{c.shared_receive_queue};
  out.connect_timeout = Duration(c.connect_timeout_ns);
  out.default_timeout = Duration(c.default_timeout_ns);
  out.close_timeout = Duration(c.close_timeout_ns);
  out.silence_limit = Duration(c.silence_limit_ns);
  out.silence_limit_passive = Duration(c.silence_limit_passive_ns);
  out.keepalive = Duration(c.keepalive_ns);
  out.rto_min = Duration(c.rto_min_ns);
  out.rto_max = Duration(c.rto_max_ns);
  out.base_rtt = Duration(c.base_rtt_ns);
  out.link_rate = Rate::bits_per_second(c.link_rate_bps);
  return SPINDRIFT_OK;
}

Duration timeout_of(std::int64_t ns) {
  return ns < 0 ? Duration::max() : Duration(ns);
}

}  // namespace spindrift::c_api

using namespace spindrift;

int spindrift_connect_options_init(spindrift_connect_options* options, size_t struct_size) {
  return c_api::init_from_settings(options, struct_size, [](const Settings& settings) {
    return c_api::c_options(settings.connect);
  });
}

ptrdiff_t spindrift_setting_warning(size_t index, char* buffer, size_t capacity) {
  return c_api::guarded<ptrdiff_t>([&]() -> ptrdiff_t {
    const Result<Settings>& settings = c_api::process_settings();
    if (!settings.ok()) return c_api::fail(settings.error());
    const auto& warnings = settings.value().warnings;
    if (index >= warnings.size())
      return c_api::fail(SPINDRIFT_NOT_FOUND,
                         absl::StrFormat("warning %d of %d", index, warnings.size()));
    return static_cast<ptrdiff_t>(c_api::copy_text(warnings[index], buffer, capacity));
  });
}

size_t spindrift_last_error(char* buffer, size_t capacity) {
  return c_api::copy_text(c_api::sentence_of_this_thread(), buffer, capacity);
}

const char* spindrift_error_name(int code) {
  switch (code) {
    case SPINDRIFT_OK:
      return "ok";
    case SPINDRIFT_INVALID_ARGUMENT:
      return "invalid argument";
    case SPINDRIFT_NOT_FOUND:
      return "not found";
    case SPINDRIFT_UNSUPPORTED:
      return "unsupported";
    case SPINDRIFT_NO_MEMORY:
      return "a limit was reached";
    case SPINDRIFT_UNAVAILABLE:
      return "unavailable";
    case SPINDRIFT_TIMED_OUT:
      return "timed out";
    case SPINDRIFT_IO:
      return "refused by the operating system";
    case SPINDRIFT_QUEUE_FULL:
      return "queue full";
    case SPINDRIFT_NOT_CONNECTED:
      return "not connected";
    case SPINDRIFT_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}
