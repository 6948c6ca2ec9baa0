#include "collectives/plan_symbols.h"

namespace spindrift::collectives {

std::uint32_t Symbols::intern(Kind kind, std::uint32_t a, std::uint32_t b) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(kind) << 60U) | (static_cast<std::uint64_t>(a) << 30U) | b;
  const auto [found, is_new] = ids_.emplace(key, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) nodes_.push_back({.kind = kind, .a = a, .b = b});
  return found->second;
}

bool Symbols::holds_all_once(std::uint32_t id, std::uint32_t ranks, std::uint32_t chunk) const {
  std::vector<std::uint32_t> todo{id};
  std::vector<bool> has(ranks, false);
  std::uint32_t count = 0;
  while (!todo.empty()) {
    const Node& next = node(todo.back());
    todo.pop_back();
    if (next.kind == Kind::kSum) {
      todo.push_back(next.a);
      todo.push_back(next.b);
      continue;
    }
    if (next.kind != Kind::kLeaf || next.b != chunk || has[next.a]) return false;
    has[next.a] = true;
    ++count;
  }
  return count == ranks;
}

}  // namespace spindrift::collectives
