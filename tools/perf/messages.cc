#include "tools/perf/messages.h"

#include <algorithm>
#include <array>

#include "spindrift/registry.h"

#include "absl/strings/str_format.h"

namespace spindrift::perf {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxSizes = 64;

Error not_understood(std::string_view what) {
  return Error(ErrorCode::kUnsupported,
               absl::StrFormat("the peer's %s is not understood; is it a 'spindrift perf' of the "
                               "same version?",
                               what));
}

bool flag_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

double real_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : 0.0;
}

std::string encode_region(const RemoteRegion& region) {
  std::string hex;
  for (const std::byte b : region.serialize()) {
    absl::StrAppendFormat(&hex, "%02x", std::to_integer<unsigned>(b));
  }
  return hex;
}

int nibble_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Result<RemoteRegion> decode_region(std::string_view hex) {
  std::array<std::byte, RemoteRegion::kWireBytes> wire{};
  if (hex.size() != 2 * wire.size()) return not_understood("memory region");
  for (std::size_t i = 0; i < wire.size(); ++i) {
    const int high = nibble_of(hex[2 * i]);
    const int low = nibble_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return not_understood("memory region");
    wire[i] = static_cast<std::byte>(high * 16 + low);
  }
  return RemoteRegion::deserialize(wire);
}

json encode_transport(const TransportChoice& choice) {
  return {{"congestion_control", choice.congestion_control},
          {"path_selector", choice.path_selector},
          {"loss_rule", choice.loss_rule},
          {"paths", choice.path_count},
          {"burst_bytes", choice.burst_bytes},
          {"max_payload_mtu", choice.max_payload_mtu},
          {"crc", to_string(choice.crc)},
          {"dscp", choice.dscp},
          {"deadline_ns", static_cast<std::uint64_t>(choice.deadline.count())}};
}

// Whether the values make sense is for the transport to say, which knows its bounds.
TransportChoice decode_transport(const json& object) {
  TransportChoice out;
  if (!object.is_object()) return out;
  const auto narrow = [&](const char* key, std::uint32_t otherwise) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(number_or(object, key, otherwise), 0xFFFFFFFFu));
  };
  out.congestion_control = text_or(object, "congestion_control", out.congestion_control);
  out.path_selector = text_or(object, "path_selector", out.path_selector);
  out.loss_rule = text_or(object, "loss_rule", out.loss_rule);
  out.path_count = narrow("paths", out.path_count);
  out.burst_bytes = narrow("burst_bytes", out.burst_bytes);
  out.max_payload_mtu = narrow("max_payload_mtu", out.max_payload_mtu);
  out.crc = parse_crc(text_or(object, "crc", "auto")).value_or(CrcChoice::kAuto);
  out.dscp = static_cast<std::uint8_t>(std::min<std::uint32_t>(narrow("dscp", 0), 63));
  out.deadline = Duration(static_cast<std::int64_t>(
      std::min<std::uint64_t>(number_or(object, "deadline_ns", 0), 1ULL << 60)));
  return out;
}

std::optional<TestShape> decode_shape(const json& message) {
  TestShape shape;
  const Result<Operation> operation = parse_operation(text_or(message, "operation", ""));
  if (!operation.ok()) return std::nullopt;
  shape.operation = operation.value();
  const std::uint64_t depth = number_or(message, "depth", 0);
  const std::uint64_t connections = number_or(message, "connections", 0);
  if (depth > kMaxDepth || connections < 1 || connections > kMaxTestConnections) {
    return std::nullopt;
  }
  shape.depth = static_cast<std::uint32_t>(depth);
  shape.connections = static_cast<std::uint32_t>(connections);
  shape.has_verify = flag_of(message, "verify");
  shape.is_bidirectional = flag_of(message, "bidirectional");
  const auto sizes = message.find("sizes");
  if (sizes == message.end() || !sizes->is_array()) return std::nullopt;
  if (sizes->empty() || sizes->size() > kMaxSizes) return std::nullopt;
  for (const json& size : *sizes) {
    if (!size.is_number_unsigned()) return std::nullopt;
    shape.sizes.push_back(size.get<std::uint64_t>());
    if (shape.sizes.back() > kMaxMessageBytes) return std::nullopt;
  }
  return shape;
}

}  // namespace

std::uint64_t number_or(const json& object, const char* key, std::uint64_t otherwise) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : otherwise;
}

std::string text_or(const json& object, const char* key, std::string_view otherwise) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string(otherwise);
}

TransportChoice choice_of(const ConnectOptions& options) {
  return {.congestion_control = options.congestion_control,
          .path_selector = options.path_selector,
          .loss_rule = options.loss_rule,
          .path_count = options.path_count,
          .burst_bytes = options.burst_bytes,
          .max_payload_mtu = options.max_payload_mtu,
          .crc = options.crc,
          .dscp = options.dscp,
          .deadline = options.default_timeout};
}

ConnectOptions connect_options(const TransportChoice& choice, const ConnectOptions& base) {
  ConnectOptions options = base;
  options.congestion_control = choice.congestion_control;
  options.path_selector = choice.path_selector;
  options.loss_rule = choice.loss_rule;
  options.path_count = choice.path_count;
  options.burst_bytes = choice.burst_bytes;
  options.max_payload_mtu = choice.max_payload_mtu;
  options.crc = choice.crc;
  options.dscp = choice.dscp;
  options.default_timeout = choice.deadline;
  return options;
}

std::string_view to_string(CrcChoice choice) {
  switch (choice) {
    case CrcChoice::kAuto:
      return "auto";
    case CrcChoice::kOn:
      return "on";
    case CrcChoice::kOff:
      return "off";
  }
  return "unknown";
}

std::optional<CrcChoice> parse_crc(std::string_view name) {
  for (const CrcChoice choice : {CrcChoice::kAuto, CrcChoice::kOn, CrcChoice::kOff}) {
    if (to_string(choice) == name) return choice;
  }
  return std::nullopt;
}

json to_json(const SessionSetup& setup) {
  return {{"type", "setup"},
          {"version", kControlVersion},
          {"operation", to_string(setup.shape.operation)},
          {"sizes", setup.shape.sizes},
          {"depth", setup.shape.depth},
          {"connections", setup.shape.connections},
          {"verify", setup.shape.has_verify},
          {"bidirectional", setup.shape.is_bidirectional},
          {"transport", encode_transport(setup.transport)},
          {"region", encode_region(setup.region)}};
}

json to_json(const Ready& ready) {
  return {{"type", "ready"}, {"session", ready.session}, {"region", encode_region(ready.region)}};
}

json to_json(const RunRequest& run) {
  return {{"type", "begin"},
          {"number", run.number},
          {"latency", run.is_latency},
          {"message_bytes", run.message_bytes},
          {"iterations", run.iterations},
          {"warmup", run.warmup},
          {"duration_ns", static_cast<std::uint64_t>(run.duration.count())}};
}

json to_json(const BandwidthSummary& summary) {
  return {{"iterations", summary.iterations},       {"bytes", summary.bytes},
          {"elapsed_s", summary.elapsed_s},         {"average_mb_per_s", summary.average_mb_per_s},
          {"peak_mb_per_s", summary.peak_mb_per_s}, {"message_rate_mpps", summary.rate_mpps}};
}

Result<SessionSetup> parse_setup(const json& message) {
  if (number_or(message, "version", 0) != kControlVersion) {
    return Error(ErrorCode::kUnsupported,
                 absl::StrFormat("the client speaks perf version %u, this server version %u; use "
                                 "the same spindrift on both sides",
                                 number_or(message, "version", 0), kControlVersion));
  }
  const std::optional<TestShape> shape = decode_shape(message);
  if (!shape) return not_understood("description of the test");
  Result<RemoteRegion> region = decode_region(text_or(message, "region", ""));
  if (!region.ok()) return region.error();
  const auto found = message.find("transport");
  TransportChoice transport = decode_transport(found == message.end() ? json() : *found);
  for (const std::string& choice : {transport.congestion_control, transport.path_selector}) {
    if (!names_file(choice)) continue;
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("the client names the file %s; a server loads no files for a "
                                 "client. Start it with SPINDRIFT_PLUGINS and give the name",
                                 choice));
  }
  return SessionSetup{.shape = *shape, .transport = std::move(transport), .region = region.value()};
}

Result<Ready> parse_ready(const json& message) {
  Result<RemoteRegion> region = decode_region(text_or(message, "region", ""));
  if (!region.ok()) return region.error();
  return Ready{.session = number_or(message, "session", 0), .region = region.value()};
}

Result<RunRequest> parse_run(const json& message) {
  RunRequest run;
  run.number = number_or(message, "number", 0);
  run.is_latency = flag_of(message, "latency");
  run.message_bytes = number_or(message, "message_bytes", kNoLimit);
  run.iterations = number_or(message, "iterations", 0);
  run.warmup = number_or(message, "warmup", 0);
  run.duration = Duration(static_cast<std::int64_t>(
      std::min<std::uint64_t>(number_or(message, "duration_ns", 0), 1ULL << 60)));
  if (run.number == 0 || run.message_bytes > kMaxMessageBytes) return not_understood("run");
  return run;
}

Result<BandwidthSummary> parse_bandwidth(const json& message) {
  if (!message.is_object()) return not_understood("result");
  return BandwidthSummary{.iterations = number_or(message, "iterations", 0),
                          .bytes = number_or(message, "bytes", 0),
                          .elapsed_s = real_of(message, "elapsed_s"),
                          .average_mb_per_s = real_of(message, "average_mb_per_s"),
                          .peak_mb_per_s = real_of(message, "peak_mb_per_s"),
                          .rate_mpps = real_of(message, "message_rate_mpps")};
}

std::vector<std::byte> encode_greeting(const Greeting& greeting) {
  const json text = {{"perf", kControlVersion},
                     {"control", greeting.is_control},
                     {"session", greeting.session},
                     {"connection", greeting.connection}};
  const std::string dumped = text.dump();
  const auto bytes = std::as_bytes(std::span(dumped));
  return {bytes.begin(), bytes.end()};
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const json text = json::parse(begin, begin + bytes.size(), nullptr, false);
  if (!text.is_object() || number_or(text, "perf", 0) != kControlVersion) {
    return Error(ErrorCode::kUnsupported,
                 "this is a 'spindrift perf' server; it serves only 'spindrift perf' clients of "
                 "the same version");
  }
  return Greeting{.is_control = flag_of(text, "control"),
                  .session = number_or(text, "session", 0),
                  .connection = number_or(text, "connection", 0)};
}

}  // namespace spindrift::perf
