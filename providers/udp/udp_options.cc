#include "providers/udp/udp_options.h"

#include <charconv>
#include <string>

namespace spindrift {
namespace {

constexpr std::uint64_t kMinBufferBytes = 65536;
constexpr std::uint64_t kMaxBufferBytes = 512ULL << 20U;

Result<std::uint64_t> number_within(const std::pair<std::string, std::string>& option,
                                    std::uint64_t low, std::uint64_t high) {
  const std::string& text = option.second;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    return Error(ErrorCode::kInvalidArgument,
                 "udp option " + option.first + "=" + text + " is not a whole number from " +
                     std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

}  // namespace

Result<UdpOptions> parse_udp_options(const Url& url) {
  UdpOptions options;
  for (const auto& option : url.options) {
    const std::string& key = option.first;
    const bool is_switch = key == "gso" || key == "gro";
    if (!is_switch && key != "rcvbuf" && key != "sndbuf") {
      return Error(ErrorCode::kInvalidArgument,
                   "udp has no option '" + key + "'; it knows gso, gro, rcvbuf and sndbuf");
    }
    const auto value = is_switch ? number_within(option, 0, 1)
                                 : number_within(option, kMinBufferBytes, kMaxBufferBytes);
    if (!value.ok()) return value.error();
    if (key == "gso") options.has_gso = value.value() == 1;
    if (key == "gro") options.has_gro = value.value() == 1;
    if (key == "rcvbuf") options.receive_buffer_bytes = static_cast<std::uint32_t>(value.value());
    if (key == "sndbuf") options.send_buffer_bytes = static_cast<std::uint32_t>(value.value());
  }
  return options;
}

}  // namespace spindrift
