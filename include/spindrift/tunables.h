#pragma once
// Configuration from one place. One table describes every tunable: its name, unit, bounds and
// meaning. A program asks for its settings once:
//
//   Result<Settings> settings = load_settings();
//   OpenOptions open{.endpoint = settings.value().endpoint,
//                    .udp = settings.value().udp,
//                    .shm = settings.value().shm};
//   ConnectOptions connect = settings.value().connect;
//   connect.path_count = 4;  // what the program itself says comes last
//
// Sources by rising priority: the defaults of config.h; the files (/etc/spindrift.conf, then
// ~/.config/spindrift.conf, or the one that SPINDRIFT_CONFIG names instead of both); the
// environment (SPINDRIFT_PATH_COUNT for path_count); what the program assigns afterwards. The
// library reads no file and no environment on its own (SPINDRIFT_HOST_ID apart): options that are
// handed to it are taken as they stand.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/config.h"
#include "spindrift/export.h"
#include "spindrift/result.h"

namespace spindrift {

struct Settings {
  EndpointConfig endpoint{};
  ConnectOptions connect{};
  ListenOptions listen{};
  UdpOptions udp{};
  ShmOptions shm{};
  // Where each value comes from, in the order of tunables(): "default", "environment" or
  // "/etc/spindrift.conf:3".
  std::vector<std::string> origins{};
  // Sentences about names that nobody knows, with the nearest known one.
  std::vector<std::string> warnings{};
};

enum class TunableScope : std::uint8_t {
  kEndpoint,     // EndpointConfig
  kConnect,      // ConnectOptions
  kListen,       // ListenOptions
  kUdp,          // UdpOptions
  kShm,          // ShmOptions
  kEnvironment,  // only there; read by other parts
};
enum class TunableType : std::uint8_t {
  kCount,     // "512", "64K": K, M and G are powers of 1024
  kBytes,     // the same
  kDuration,  // "200us": ns, us, ms, s, m or h; only 0 needs no unit
  kRate,      // "25G": bits per second; K, M, G and T are powers of 1000
  kFlag,      // 1, true, yes, on; 0, false, no, off
  kChoice,    // one of `choices`
  kText,
  kList,  // texts, separated by commas
};

// Numbers are counts, bytes, nanoseconds, bits per second, 0 or 1, or the index of a choice.
struct TunableValue {
  std::uint64_t number = 0;
  std::string text{};
};

struct Tunable {
  std::string_view name;  // in files; in the environment in capitals behind SPINDRIFT_
  TunableScope scope = TunableScope::kEndpoint;
  TunableType type = TunableType::kCount;
  std::string_view unit{};   // of counts: "packets"
  std::uint64_t lowest = 0;  // bounds of numbers
  std::uint64_t highest = 0;
  std::uint64_t multiple_of = 1;
  std::span<const std::string_view> choices{};
  std::string_view help{};
  // The field; null for kEnvironment.
  TunableValue (*get)(const Settings& settings) = nullptr;
  void (*set)(Settings& settings, const TunableValue& value) = nullptr;
};
SPINDRIFT_EXPORT std::span<const Tunable> tunables();
// Null: there is none of that name.
SPINDRIFT_EXPORT const Tunable* find_tunable(std::string_view name);
SPINDRIFT_EXPORT std::string environment_name(const Tunable& tunable);

// Where settings come from; tests and embedding programs may have sources of their own.
struct SettingsSources {
  std::vector<std::string> files{};        // later ones override earlier ones
  bool needs_files = false;                // a file that does not exist is an error
  std::vector<std::string> environment{};  // "NAME=value"
};
SPINDRIFT_EXPORT SettingsSources process_sources();

// An error names the value, where it stands, and the bounds.
SPINDRIFT_EXPORT Result<Settings> load_settings(const SettingsSources& sources);
SPINDRIFT_EXPORT Result<Settings> load_settings();
// "default" when nobody set it.
SPINDRIFT_EXPORT std::string_view origin_of(const Settings& settings, std::string_view name);

// ok, or a sentence about the first field that is out of bounds.
SPINDRIFT_EXPORT Status check_bounds(const EndpointConfig& config);
SPINDRIFT_EXPORT Status check_bounds(const ConnectOptions& options);
SPINDRIFT_EXPORT Status check_bounds(const ListenOptions& options);
SPINDRIFT_EXPORT Status check_bounds(const UdpOptions& options);
SPINDRIFT_EXPORT Status check_bounds(const ShmOptions& options);

// Values as people write and read them.
SPINDRIFT_EXPORT Result<TunableValue> parse_value(const Tunable& tunable, std::string_view text);
SPINDRIFT_EXPORT std::string format_value(const Tunable& tunable, const TunableValue& value);
// "1..65535 packets", "auto, on or off", "any text".
SPINDRIFT_EXPORT std::string format_bounds(const Tunable& tunable);

}  // namespace spindrift
