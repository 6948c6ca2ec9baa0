#include "tools/info/opened.h"

#include <utility>
#include <vector>

#include "spindrift/message_fabric.h"

#include "absl/strings/str_format.h"
#include "plugins/provider_modules.h"
#include "tools/info/devices.h"

namespace spindrift::tools {
namespace {

using nlohmann::json;

void add(json& properties, const char* name, json value) {
  properties.push_back({{"name", name}, {"value", std::move(value)}});
}

json rate(Rate rate) {
  return rate.is_unlimited()
             ? json("unknown")
             : json(absl::StrFormat("%g Gb/s", static_cast<double>(rate.bits_per_second()) / 1e9));
}

json describe_packets(const PacketIo& io) {
  const PacketIoCaps& caps = io.caps();
  json properties = json::array();
  add(properties, "largest packet", absl::StrFormat("%d bytes of UDP", caps.max_packet_bytes));
  add(properties, "paths", caps.entropies);
  add(properties, "link rate", rate(caps.link_rate));
  add(properties, "congestion marks (ECN)", caps.has_ecn ? "yes" : "no");
  add(properties, "arrival times", caps.has_rx_timestamp ? "of the device" : "of this host");
  add(properties, "payload",
      caps.copies_on_send ? "copied into packets" : "sent from where it lies");
  json addresses = json::array();
  for (const NetAddress& rail : io.rails())
    addresses.push_back(rail.to_string());
  return {{"addresses", addresses}, {"properties", properties}};
}

json describe_fabric(const MessageFabric& fabric) {
  const FabricCaps& caps = fabric.caps();
  json properties = json::array();
  add(properties, "largest message", absl::StrFormat("%d bytes", caps.max_payload_bytes));
  add(properties, "largest read",
      caps.max_read_bytes == 0 ? std::string("none")
                               : absl::StrFormat("%d bytes", caps.max_read_bytes));
  add(properties, "paths", caps.max_lanes);
  add(properties, "link rate", rate(caps.link_rate));
  const auto addresses = fabric.addresses();
  return {{"addresses", std::vector(addresses.begin(), addresses.end())},
          {"properties", properties}};
}

}  // namespace

Result<json> describe_opened(const Registry& registry, std::string_view address) {
  const Result<Url> url = parse_url(address);
  if (!url.ok()) return url.error();
  const auto provider = registry.find_provider(url.value().scheme);
  if (!provider.ok()) return provider.error();
  json out;
  const bool is_fabric = provider.value()->open_fabric != nullptr &&
                         (provider.value()->open == nullptr || !asks_for_packets(url.value()));
  if (is_fabric) {
    const auto fabric = provider.value()->open_fabric(url.value());
    if (!fabric.ok()) return fabric.error();
    out = describe_fabric(*fabric.value());
  } else {
    const auto io = provider.value()->open(url.value());
    if (!io.ok()) return io.error();
    out = describe_packets(*io.value());
  }
  out["provider"] = provider.value()->name;
  const auto facts = describe_devices(url.value());
  if (facts.ok() && !facts.value().empty()) out["devices"] = to_json(facts.value());
  return out;
}

std::string format_opened(const json& opened) {
  std::string out = opened["provider"].get<std::string>() + "\n";
  for (const json& address : opened["addresses"])
    absl::StrAppendFormat(&out, "  %-24s %s\n", "address", address.get<std::string>());
  for (const json& property : opened["properties"]) {
    const json& value = property["value"];
    absl::StrAppendFormat(&out, "  %-24s %s\n", property["name"].get<std::string>(),
                          value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (opened.contains("devices")) append_devices(opened["devices"], 2, &out);
  return out;
}

}  // namespace spindrift::tools
