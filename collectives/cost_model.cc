#include "collectives/cost_model.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <absl/strings/numbers.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "collectives/bound_plan.h"

namespace spindrift::collectives {
namespace {

constexpr double kMostUs = 1e6;
constexpr double kMostGbps = 1e4;
constexpr std::uint64_t kMostSharedBytes = std::uint64_t{1} << 30U;

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

bool is_within(double value, double most) {
  return value >= 0 && value <= most;
}

std::string name_of(const CollectiveAlgorithm& algorithm) {
  return std::string(to_string(algorithm.collective)) + ":" + std::string(algorithm.name);
}

bool parse_link(const std::string& value, LinkCosts& costs) {
  const std::vector<std::string> parts = absl::StrSplit(value, ',');
  return parts.size() == 3 && absl::SimpleAtod(parts[0], &costs.latency_us) &&
         absl::SimpleAtod(parts[1], &costs.overhead_us) &&
         absl::SimpleAtod(parts[2], &costs.bandwidth_gbps) &&
         is_within(costs.latency_us, kMostUs) && is_within(costs.overhead_us, kMostUs) &&
         costs.bandwidth_gbps > 0 && costs.bandwidth_gbps <= kMostGbps;
}

std::string variable(const char* name) {
  // Read at set-up; nobody changes the environment meanwhile.
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

double LinkCosts::predict_us(const PlanCost::Traffic& traffic, double block_bytes, double factor,
                             bool has_grants) const {
  if (traffic.messages == 0) return 0;
  const double bytes = traffic.blocks * block_bytes;
  double time = traffic.steps * latency_us + traffic.messages * overhead_us;
  // Long messages are granted before they are sent: once, since grants run ahead.
  if (has_grants && bytes / traffic.messages > kSmallBytes) time += latency_us;
  return time + bytes / (bandwidth_gbps * 1e3 * factor);
}

double CostModel::factor_of(const CollectiveAlgorithm& algorithm) const {
  const auto found = factors.find(name_of(algorithm));
  return found == factors.end() ? 1.0 : found->second;
}

double CostModel::predict_us(const CollectiveAlgorithm& algorithm, const PlanCost& cost,
                             double block_bytes, bool uses_memory) const {
  const double factor = factor_of(algorithm);
  // A call that is all memory has no messages between hosts.
  const LinkCosts& far = algorithm.is_shared ? shared : network;
  return far.predict_us(cost.network, block_bytes, factor, !algorithm.is_shared) +
         (uses_memory ? shared : near).predict_us(cost.near, block_bytes, factor, !uses_memory);
}

std::string to_text(const CostModel& model) {
  const auto link = [](const LinkCosts& costs) {
    return absl::StrFormat("%.6g,%.6g,%.6g", costs.latency_us, costs.overhead_us,
                           costs.bandwidth_gbps);
  };
  std::string text = "network=" + link(model.network) + " near=" + link(model.near) +
                     " shared=" + link(model.shared);
  absl::StrAppendFormat(&text, " shared_limit=%d", model.shared_limit_bytes);
  for (const auto& [name, factor] : model.factors)
    absl::StrAppendFormat(&text, " %s=%.6g", name, factor);
  return text;
}

Result<CostModel> cost_model_from_text(std::string_view text) {
  CostModel model;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    bool is_good = false;
    if (name == "network" || name == "near" || name == "shared") {
      LinkCosts& costs = name == "network" ? model.network
                         : name == "near"  ? model.near
                                           : model.shared;
      is_good = parse_link(value, costs);
    } else if (name == "shared_limit") {
      is_good = absl::SimpleAtoi(value, &model.shared_limit_bytes) &&
                model.shared_limit_bytes <= kMostSharedBytes;
    } else {
      double factor = 0;
      is_good = name.find(':') != std::string::npos && absl::SimpleAtod(value, &factor) &&
                factor > 0 && factor <= kMostGbps;
      if (is_good) model.factors[name] = factor;
    }
    if (!is_good) {
      return invalid(absl::StrFormat(
          "\"%s\" is no part of a cost model: network=LATENCY_US,OVERHEAD_US,GB/S, near and "
          "shared=the same, shared_limit=BYTES (at most %d), or collective:algorithm=FACTOR",
          word, kMostSharedBytes));
    }
  }
  return model;
}

std::string cost_model_file() {
  if (std::string told = variable("SPINDRIFT_TUNING"); !told.empty()) return told;
  const std::string cache = variable("XDG_CACHE_HOME");
  const std::string home = variable("HOME");
  if (cache.empty() && home.empty()) return {};
  return (cache.empty() ? home + "/.cache" : cache) + "/spindrift/collectives.costs";
}

Result<CostModel> load_cost_model(const std::string& file) {
  std::ifstream in(file);
  if (file.empty() || (!in && errno == ENOENT)) return CostModel{};
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    return Error(ErrorCode::kIo, absl::StrFormat("cannot read the measured costs of %s: %s", file,
                                                 std::strerror(errno)));  // NOLINT: one thread
  }
  Result<CostModel> model = cost_model_from_text(text.str());
  if (!model.ok()) return invalid(file + ": " + model.error().message());
  return model;
}

Status save_cost_model(const std::string& file, const CostModel& model) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  std::ofstream out(file);
  out << to_text(model) << "\n";
  out.close();
  if (out) return ok_status();
  return Error(ErrorCode::kIo, absl::StrFormat("cannot write %s: %s", file,
                                               std::strerror(errno)));  // NOLINT: one thread
}

}  // namespace spindrift::collectives
