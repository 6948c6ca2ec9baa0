#include "providers/libfabric/ofi_options.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace spindrift {
namespace {

constexpr std::array kInfos{
    OfiOptionInfo{"domain", "", 0, 0,
                  "libfabric's name of the device (fi_info shows them); up to four with commas "
                  "between them, each a rail"},
    OfiOptionInfo{"buffers", "messages", 40, 4096, "of one peer that this side has room for"},
    OfiOptionInfo{"read_from", "bytes", 1024, 1U << 30U,
                  "from which on messages are read by the peer instead of sent"},
    OfiOptionInfo{"poll_us", "us", 10, 100000,
                  "between looks of a sleeper, where the provider of libfabric wakes nobody"},
    OfiOptionInfo{"silent_ms", "ms", 20, 60000,
                  "that a rail may be silent while another one answers, until it is given up"},
};

Error bad_address(std::string_view text, const std::string& why) {
  return Error(ErrorCode::kInvalidArgument,
               "ofi://" + std::string(text) + ": " + why +
                   "; write ofi://PROVIDER@IP:PORT, such as ofi://net@10.0.0.1:4793");
}

bool is_provider_name(std::string_view text) {
  if (text.empty() || text.size() > 64) return false;
  for (const char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ';' ||
          c == '_' || c == '-'))
      return false;
  return (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
}

Result<NetAddress> parse_host(std::string_view whole, std::string_view host) {
  auto address = parse_net_address(host, kDefaultPort);
  if (!address.ok()) return bad_address(whole, address.error().message());
  return address;
}

const OfiOptionInfo* find_info(std::string_view name) {
  for (const OfiOptionInfo& info : kInfos)
    if (info.name == name) return &info;
  return nullptr;
}

Result<std::uint32_t> parse_number(const OfiOptionInfo& info, std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= info.min &&
      value <= info.max)
    return value;
  return Error(ErrorCode::kInvalidArgument,
               "ofi://: " + std::string(info.name) + "=" + std::string(text) +
                   " is not a number of " + std::string(info.unit) + " from " +
                   std::to_string(info.min) + " to " + std::to_string(info.max));
}

Status set_domains(OfiOptions& out, std::string_view text) {
  out.domains.clear();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string name(text.substr(at, end - at));
    at = end + 1;
    if (name.empty() ||
        std::find(out.domains.begin(), out.domains.end(), name) != out.domains.end())
      return Error(ErrorCode::kInvalidArgument,
                   "ofi://: domain=" + std::string(text) +
                       (name.empty() ? " has an empty name" : " names " + name + " twice"));
    out.domains.push_back(name);
  }
  if (out.domains.size() <= kMostOfiRails) return ok_status();
  return Error(ErrorCode::kInvalidArgument,
               "ofi://: domain=" + std::string(text) + " names " +
                   std::to_string(out.domains.size()) + " domains; one endpoint has at most " +
                   std::to_string(kMostOfiRails) + ". Open an endpoint for each");
}

Status set(OfiOptions& out, const OfiOptionInfo& info, const std::string& text) {
  if (info.max == 0) return set_domains(out, text);
  const auto value = parse_number(info, text);
  if (!value.ok()) return value.error();
  std::uint32_t& target = info.name == "buffers"     ? out.buffers
                          : info.name == "read_from" ? out.read_from
                          : info.name == "silent_ms" ? out.silent_ms
                                                     : out.poll_us;
  target = value.value();
  return ok_status();
}

Error unknown_option(const std::string& name) {
  std::string known;
  for (const OfiOptionInfo& info : kInfos)
    known += (known.empty() ? "" : ", ") + std::string(info.name);
  return Error(ErrorCode::kInvalidArgument,
               "ofi:// has no option '" + name + "'; there are: " + known);
}

}  // namespace

Result<OfiAddress> parse_ofi_address(std::string_view text) {
  OfiAddress out;
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos) {
    out.provider = std::string(text.substr(0, at));
    if (!is_provider_name(out.provider))
      return bad_address(text, "'" + out.provider + "' is no name of a provider");
    const auto host = parse_host(text, text.substr(at + 1));
    if (!host.ok()) return host.error();
    out.host = host.value();
    return out;
  }
  if (text.empty()) return out;
  if (is_provider_name(text)) {
    out.provider = std::string(text);
    return out;
  }
  const auto host = parse_host(text, text);
  if (!host.ok()) return host.error();
  out.host = host.value();
  return out;
}

std::span<const OfiOptionInfo> ofi_option_infos() {
  return kInfos;
}

Result<OfiOptions> parse_ofi_options(const Url& url) {
  OfiOptions out;
  for (const std::string& host : url.hosts) {
    const auto address = parse_ofi_address(host);
    if (!address.ok()) return address.error();
    const std::string& provider = address.value().provider;
    if (provider.empty()) continue;
    if (!out.provider.empty() && out.provider != provider)
      return Error(ErrorCode::kInvalidArgument, "ofi://: one endpoint has one provider, not both " +
                                                    out.provider + " and " + provider);
    out.provider = provider;
  }
  for (const auto& [name, value] : url.options) {
    const OfiOptionInfo* info = find_info(name);
    if (info == nullptr) return unknown_option(name);
    const Status status = set(out, *info, value);
    if (!status.ok()) return status.error();
  }
  return out;
}

}  // namespace spindrift
