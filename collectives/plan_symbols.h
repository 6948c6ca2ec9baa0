#pragma once
// Symbols for numbers: what a chunk holds, as the expression that made it.
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace spindrift::collectives {

// Expressions of equal shape have equal ids.
class Symbols final {
 public:
  static constexpr std::uint32_t kNothing = 0;  // not written yet

  std::uint32_t leaf(std::uint32_t rank, std::uint32_t chunk) {
    return intern(Kind::kLeaf, rank, chunk);
  }
  std::uint32_t sum(std::uint32_t left, std::uint32_t right) {
    return intern(Kind::kSum, left, right);
  }
  std::uint32_t final_of(std::uint32_t sum) { return intern(Kind::kFinal, sum, 0); }

  bool is_final(std::uint32_t id) const { return node(id).kind == Kind::kFinal; }
  // Of a final expression.
  std::uint32_t inside(std::uint32_t id) const { return node(id).a; }
  // Whether the expression adds up exactly one leaf of each rank, all of `chunk`.
  bool holds_all_once(std::uint32_t id, std::uint32_t ranks, std::uint32_t chunk) const;

 private:
  enum class Kind : std::uint8_t { kNothing, kLeaf, kSum, kFinal };
  struct Node {
    Kind kind = Kind::kNothing;
    std::uint32_t a = 0;
    std::uint32_t b = 0;
  };
  const Node& node(std::uint32_t id) const { return nodes_[id]; }
  std::uint32_t intern(Kind kind, std::uint32_t a, std::uint32_t b);

  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, std::uint32_t> ids_;
};

}  // namespace spindrift::collectives
