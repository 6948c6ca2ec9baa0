#include "tools/coll/routes.h"

#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

namespace spindrift::coll {
namespace {

std::string provider_of(const RankLink& link) {
  return link.address.substr(0, link.address.find("://"));
}

// "1-3 5"
std::string ranges(const std::vector<std::uint32_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    absl::StrAppend(&text, text.empty() ? "" : " ", ranks[i]);
    if (last > i) absl::StrAppend(&text, "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::string describe_routes(std::span<const RankLink> links) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> providers;
  for (const RankLink& link : links) {
    const std::string provider = provider_of(link);
    std::size_t at = 0;
    while (at < providers.size() && providers[at].first != provider)
      ++at;
    if (at == providers.size()) providers.push_back({provider, {}});
    providers[at].second.push_back(link.rank);
  }
  std::string text;
  for (const auto& [provider, ranks] : providers)
    absl::StrAppend(&text, text.empty() ? "" : ", ", provider, " to ", ranges(ranks));
  return text;
}

std::string routes_to_json(std::span<const RankLink> links) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const RankLink& link : links) {
    all.push_back({{"rank", link.rank},
                   {"provider", provider_of(link)},
                   {"is_open", link.is_open},
                   {"note", link.note.empty() ? nlohmann::ordered_json()
                                              : nlohmann::ordered_json(link.note)}});
  }
  return all.dump();
}

}  // namespace spindrift::coll
