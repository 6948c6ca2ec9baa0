#pragma once
// What client and server tell each other: JSON texts over a connection of their own. Everything
// that arrives is checked; a peer's nonsense becomes an error, never an exception.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "spindrift/config.h"
#include "spindrift/memory.h"
#include "spindrift/result.h"
#include "spindrift/work.h"

#include "tools/perf/plan.h"
#include "tools/perf/statistics.h"

namespace spindrift::perf {

// Raised when a message changes its meaning.
inline constexpr std::uint64_t kControlVersion = 1;

// How the connections that carry data are to behave, on both sides.
struct TransportChoice {
  std::string congestion_control = ConnectOptions{}.congestion_control;
  std::string path_selector = ConnectOptions{}.path_selector;
  std::string loss_rule = ConnectOptions{}.loss_rule;
  std::uint32_t path_count = ConnectOptions{}.path_count;
  std::uint32_t burst_bytes = ConnectOptions{}.burst_bytes;
  std::uint32_t max_payload_mtu = ConnectOptions{}.max_payload_mtu;
  CrcChoice crc = CrcChoice::kAuto;
  std::uint8_t dscp = 0;
  Duration deadline{};
};
TransportChoice choice_of(const ConnectOptions& options);
// `base` is what this side says about the rest.
ConnectOptions connect_options(const TransportChoice& choice, const ConnectOptions& base);
std::string_view to_string(CrcChoice choice);  // "auto"
std::optional<CrcChoice> parse_crc(std::string_view name);

// First message of a client.
struct SessionSetup {
  TestShape shape{};
  TransportChoice transport{};
  RemoteRegion region{};
};
// Its answer.
struct Ready {
  std::uint64_t session = 0;
  RemoteRegion region{};
};
// One run: one size, bandwidth or latency.
struct RunRequest {
  std::uint64_t number = 0;  // 1, 2, ... within the session
  bool is_latency = false;
  std::uint64_t message_bytes = 0;
  std::uint64_t iterations = 0;  // per connection; zero: for `duration`
  std::uint64_t warmup = 0;      // per connection, before measuring
  Duration duration{};
  std::uint32_t post_batch = 32;  // of the client; not told to the server
};
// What the connections' private data says.
struct Greeting {
  bool is_control = false;
  std::uint64_t session = 0;     // of a data connection
  std::uint64_t connection = 0;  // of a data connection: its index
};

nlohmann::json to_json(const SessionSetup& setup);
nlohmann::json to_json(const Ready& ready);
nlohmann::json to_json(const RunRequest& run);
nlohmann::json to_json(const BandwidthSummary& summary);
Result<SessionSetup> parse_setup(const nlohmann::json& message);
Result<Ready> parse_ready(const nlohmann::json& message);
Result<RunRequest> parse_run(const nlohmann::json& message);
Result<BandwidthSummary> parse_bandwidth(const nlohmann::json& message);

std::vector<std::byte> encode_greeting(const Greeting& greeting);
Result<Greeting> decode_greeting(std::span<const std::byte> bytes);

// Reading members that may be missing or of another type.
std::uint64_t number_or(const nlohmann::json& object, const char* key, std::uint64_t otherwise);
std::string text_or(const nlohmann::json& object, const char* key, std::string_view otherwise);

}  // namespace spindrift::perf
