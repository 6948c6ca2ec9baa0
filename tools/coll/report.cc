#include "tools/coll/report.h"

#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "tools/coll/operations.h"
#include "transport/base/printable.h"

namespace spindrift::coll {
namespace {

nlohmann::json to_json(Collective collective, std::uint64_t bytes, const Outcome& outcome,
                       std::uint32_t ranks) {
  const Bandwidth bandwidth = bandwidth_of(collective, bytes, outcome.time_us, ranks);
  nlohmann::json json{{"time_us", outcome.time_us},
                      {"algbw_gbs", bandwidth.algorithm_gbs},
                      {"busbw_gbs", bandwidth.bus_gbs}};
  json["wrong"] = outcome.wrong ? nlohmann::json(*outcome.wrong) : nlohmann::json();
  for (const RankTime& time : outcome.ranks) {
    json["ranks"].push_back({{"mean_us", time.mean_us}, {"slowest_us", time.slowest_us}});
  }
  return json;
}

std::string bucket_line(const std::string& name, const Bucket& bucket, std::uint64_t bytes,
                        const Outcome& outcome, std::uint32_t ranks) {
  const Bandwidth bandwidth = bandwidth_of(Collective::kAllReduce, bytes, outcome.time_us, ranks);
  const std::string wrong = outcome.wrong ? std::to_string(*outcome.wrong) : "N/A";
  return absl::StrFormat("  %8s  %8d  %12d  %12d  %9.1f  %6s  %6s  %6s\n", name, bucket.tensors,
                         bucket.elements, bytes, outcome.time_us, fit(bandwidth.algorithm_gbs, 6),
                         fit(bandwidth.bus_gbs, 6), wrong);
}

}  // namespace

void Report::print(const std::string& text) const {
  if (options_.is_json) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Report::begin(std::span<const std::string> who) {
  who_.assign(who.begin(), who.end());
  std::string text = absl::StrFormat(
      "# spindrift coll %s: %d ranks, provider %s, congestion control %s, paths %d by %s, slices "
      "of %d bytes%s%s\n",
      operation_of(options_.collective).name, ranks_, options_.provider,
      options_.connection.congestion_control, options_.connection.path_count,
      options_.connection.path_selector, options_.slice_bytes,
      options_.faults.empty() ? "" : ", faults on purpose: ", options_.faults);
  if (options_.workload.empty()) {
    absl::StrAppendFormat(&text,
                          "# minBytes %d maxBytes %d step: %d(%s) warmup iters: %d iters: %d "
                          "validation: %d\n",
                          options_.min_bytes, options_.max_bytes,
                          options_.step_factor > 1 ? options_.step_factor : options_.step_bytes,
                          options_.step_factor > 1 ? "factor" : "bytes", options_.warmup,
                          options_.iterations, options_.has_check ? 1 : 0);
  }
  text += "#\n# Using ranks\n";
  for (const std::string& line : who_)
    text += printable(line) + "\n";
  print(text);
}

void Report::begin_table() {
  print(table_header());
}

void Report::add_row(const Row& row) {
  rows_.push_back(row);
  wrong_ += row.out_of_place.wrong.value_or(0);
  if (row.in_place) wrong_ += row.in_place->wrong.value_or(0);
  print(table_row(row, options_, ranks_));
}

void Report::add_workload(std::span<const Bucket> buckets, const ReplayResult& result) {
  buckets_.assign(buckets.begin(), buckets.end());
  replayed_ = result;
  Bucket total;
  Outcome all{.time_us = result.step.time_us, .wrong = std::nullopt, .ranks = {}};
  std::string lines;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Outcome& outcome = result.buckets[i];
    total.tensors += buckets_[i].tensors;
    total.elements += buckets_[i].elements;
    if (outcome.wrong) all.wrong = all.wrong.value_or(0) + *outcome.wrong;
    lines +=
        bucket_line(std::to_string(i), buckets_[i], bytes_of_bucket(buckets_[i]), outcome, ranks_);
  }
  wrong_ += all.wrong.value_or(0);
  print(absl::StrFormat(
      "#\n# Workload %s: %d tensors, %d parameters as %s, in %d buckets of about %d MiB, last "
      "tensor first, ready over %g ms, %d steps\n#\n"
      "#   bucket   tensors      elements         bytes       time   algbw   busbw  #wrong\n"
      "#                                                      (us)  (GB/s)  (GB/s)\n",
      options_.workload, total.tensors, total.elements, to_string(options_.type), buckets_.size(),
      options_.bucket_mib, options_.backward_ms, options_.iterations));
  print(lines + bucket_line("step", total, bytes_of_bucket(total), all, ranks_));
  print(absl::StrFormat(
      "# %-20s : %d %s\n# %-20s : %.3f ms, %.3f ms of it after the last gradient\n"
      "# %-20s : %.2f\n#\n",
      "Out of bounds values", wrong_, wrong_ == 0 ? "OK" : "FAILED", "Time per step",
      all.time_us / 1e3, exposed_ms(), "Steps per second", steps_per_second()));
}

std::uint64_t Report::bytes_of_bucket(const Bucket& bucket) const {
  return bucket.elements * bytes_of(options_.type);
}

double Report::exposed_ms() const {
  return replayed_.step.time_us / 1e3 - options_.backward_ms;
}

double Report::steps_per_second() const {
  return replayed_.step.time_us > 0 ? 1e6 / replayed_.step.time_us : 0;
}

double Report::average_bus_gbs() const {
  double sum = 0;
  std::size_t places = 0;
  const auto add = [&](const Row& row, const Outcome& outcome) {
    sum += bandwidth_of(options_.collective, row.bytes, outcome.time_us, ranks_).bus_gbs;
    ++places;
  };
  for (const Row& row : rows_) {
    add(row, row.out_of_place);
    if (row.in_place) add(row, *row.in_place);
  }
  return places == 0 ? 0 : sum / static_cast<double>(places);
}

void Report::end(const Account& account, std::span<const std::string> routes) {
  if (options_.is_json) {
    const std::string text = json(account, routes) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return;
  }
  if (!rows_.empty()) {
    print(spread_line(rows_.back()) + table_footer(options_.collective, wrong_, average_bus_gbs()));
  }
  print(describe(account, ranks_));
}

std::string Report::json(const Account& account, std::span<const std::string> routes) const {
  nlohmann::json out{{"collective", std::string(to_string(options_.collective))},
                     {"ranks", ranks_},
                     {"type", std::string(to_string(options_.type))},
                     {"redop", std::string(to_string(options_.op))},
                     {"congestion_control", options_.connection.congestion_control},
                     {"path_selector", options_.connection.path_selector},
                     {"loss_rule", options_.connection.loss_rule},
                     {"paths", options_.connection.path_count},
                     {"faults", options_.faults},
                     {"iterations", options_.iterations},
                     {"wrong", wrong_}};
  for (const Row& row : rows_) {
    nlohmann::json line{
        {"bytes", row.bytes},
        {"count", row.count},
        {"algorithm", row.algorithm},
        {"out_of_place", to_json(options_.collective, row.bytes, row.out_of_place, ranks_)}};
    if (row.in_place) {
      line["in_place"] = to_json(options_.collective, row.bytes, *row.in_place, ranks_);
    }
    out["rows"].push_back(std::move(line));
  }
  if (!rows_.empty()) out["average_busbw_gbs"] = average_bus_gbs();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::uint64_t bytes = bytes_of_bucket(buckets_[i]);
    nlohmann::json bucket = to_json(options_.collective, bytes, replayed_.buckets[i], ranks_);
    bucket["tensors"] = buckets_[i].tensors;
    bucket["count"] = buckets_[i].elements;
    bucket["bytes"] = bytes;
    out["buckets"].push_back(std::move(bucket));
  }
  if (!buckets_.empty()) {
    out["workload"] = options_.workload;
    out["backward_ms"] = options_.backward_ms;
    out["step_ms"] = replayed_.step.time_us / 1e3;
    out["exposed_ms"] = exposed_ms();
    out["steps_per_second"] = steps_per_second();
  }
  out["provider"] = options_.provider;
  for (const std::string& route : routes)
    out["links"].push_back(nlohmann::json::parse(route));
  out["transport"] = nlohmann::json::parse(to_text(account));
  return out.dump(2);
}

}  // namespace spindrift::coll
