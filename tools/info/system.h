#pragma once
// What the operating system says about this host. Missing files and refused calls leave members
// out; nothing here fails.
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace spindrift::tools {

nlohmann::json describe_cpu();
nlohmann::json describe_limits();
nlohmann::json describe_interfaces();

// One limit against what is wanted; kUnlimited stands for "no limit".
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
struct Limit {
  std::string_view name;
  std::uint64_t value = 0;
  std::uint64_t wanted = 0;
  std::string_view why;
  std::string_view remedy;
};
nlohmann::json to_json(const Limit& limit);

}  // namespace spindrift::tools
