#include "plugins/nccl/name_filter.h"

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
    std::string_view name = list.substr(0, comma);
    name = name.substr(0, name.find(':'));
    if (!name.empty()) names_.emplace_back(name);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
}

bool NameFilter::passes(std::string_view name) const {
  if (names_.empty()) return true;
  for (const std::string& listed : names_)
    if (is_exact_ ? name == listed : name.starts_with(listed)) return !excludes_;
  return excludes_;
}

}  // namespace spindrift::nccl
