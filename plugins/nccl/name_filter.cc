#include "plugins/nccl/name_filter.h"

#include <charconv>

namespace spindrift::nccl {

NameFilter::NameFilter(std::string_view list) {
  if (list.starts_with('^')) {
    excludes_ = true;
    list.remove_prefix(1);
  }
  if (list.starts_with('=')) {
    is_exact_ = true;
    list.remove_prefix(1);
  }
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view item = list.substr(0, comma);
    const std::size_t colon = item.find(':');
    Listed listed{.name = std::string(item.substr(0, colon))};
    if (colon != std::string_view::npos)
      std::from_chars(item.data() + colon + 1, item.data() + item.size(), listed.port);
    if (!listed.name.empty()) names_.push_back(std::move(listed));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
}

bool NameFilter::passes(std::string_view name, int port) const {
  if (names_.empty()) return true;
  for (const Listed& listed : names_) {
    const bool is_name = is_exact_ ? name == listed.name : name.starts_with(listed.name);
    const bool is_port = port == kAnyPort || listed.port == kAnyPort || port == listed.port;
    if (is_name && is_port) return !excludes_;
  }
  return excludes_;
}

}  // namespace spindrift::nccl
