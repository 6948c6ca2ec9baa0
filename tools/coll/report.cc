#include "tools/coll/report.h"

#include <cstdio>

#include <absl/strings/str_format.h>
#include <nlohmann/json.hpp>

#include "transport/base/printable.h"

namespace spindrift::coll {
namespace {

nlohmann::json to_json(std::uint64_t bytes, const Outcome& outcome, std::uint32_t ranks) {
  const Bandwidth bandwidth = bandwidth_of(bytes, outcome.time_us, ranks);
  nlohmann::json json{{"time_us", outcome.time_us},
                      {"algbw_gbs", bandwidth.algorithm_gbs},
                      {"busbw_gbs", bandwidth.bus_gbs}};
  json["wrong"] = outcome.wrong ? nlohmann::json(*outcome.wrong) : nlohmann::json();
  return json;
}

std::string bucket_line(const std::string& name, const Bucket& bucket, const Outcome& outcome,
                        std::uint32_t ranks) {
  const std::uint64_t bytes = bucket.elements * sizeof(float);
  const Bandwidth bandwidth = bandwidth_of(bytes, outcome.time_us, ranks);
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
      "# spindrift coll allreduce: ring, %d ranks, congestion control %s, paths %d by %s, slices "
      "of %d bytes%s%s\n",
      ranks_, options_.connection.congestion_control, options_.connection.path_count,
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
  wrong_ += row.out_of_place.wrong.value_or(0) + row.in_place.wrong.value_or(0);
  print(table_row(row, options_.type, options_.op, ranks_));
}

void Report::add_workload(std::span<const Tensor> tensors, std::span<const Bucket> buckets,
                          std::span<const Outcome> outcomes, std::uint32_t steps) {
  buckets_.assign(buckets.begin(), buckets.end());
  bucket_outcomes_.assign(outcomes.begin(), outcomes.end());
  Bucket total;
  Outcome sum;
  std::string lines;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    bucket_outcomes_[i].time_us /= steps;
    total.tensors += buckets_[i].tensors;
    total.elements += buckets_[i].elements;
    sum.time_us += bucket_outcomes_[i].time_us;
    if (bucket_outcomes_[i].wrong) {
      sum.wrong = sum.wrong.value_or(0) + *bucket_outcomes_[i].wrong;
    }
    lines += bucket_line(std::to_string(i), buckets_[i], bucket_outcomes_[i], ranks_);
  }
  wrong_ += sum.wrong.value_or(0);
  steps_per_second_ = sum.time_us > 0 ? 1e6 / sum.time_us : 0;
  print(absl::StrFormat(
      "#\n# Workload %s: %d tensors, %d parameters, in %d buckets of about %d MiB, last tensor "
      "first, %d steps\n#\n"
      "#   bucket   tensors      elements         bytes       time   algbw   busbw  #wrong\n"
      "#                                                      (us)  (GB/s)  (GB/s)\n",
      options_.workload, tensors.size(), total.elements, buckets_.size(), options_.bucket_mib,
      steps));
  print(lines + bucket_line("all", total, sum, ranks_));
  print(
      absl::StrFormat("# %-20s : %d %s\n# %-20s : %.2f (gradients exchanged, no computation)\n#\n",
                      "Out of bounds values", wrong_, wrong_ == 0 ? "OK" : "FAILED",
                      "Steps per second", steps_per_second_));
}

double Report::average_bus_gbs() const {
  double sum = 0;
  for (const Row& row : rows_) {
    sum += bandwidth_of(row.bytes, row.out_of_place.time_us, ranks_).bus_gbs +
           bandwidth_of(row.bytes, row.in_place.time_us, ranks_).bus_gbs;
  }
  return rows_.empty() ? 0 : sum / (2 * static_cast<double>(rows_.size()));
}

void Report::end(const Account& account) {
  if (options_.is_json) {
    const std::string text = json(account) + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return;
  }
  if (!rows_.empty()) print(table_footer(wrong_, average_bus_gbs()));
  print(describe(account, ranks_));
}

std::string Report::json(const Account& account) const {
  nlohmann::json out{{"collective", "all_reduce"},
                     {"algorithm", "ring"},
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
    out["rows"].push_back({{"bytes", row.bytes},
                           {"count", row.count},
                           {"out_of_place", to_json(row.bytes, row.out_of_place, ranks_)},
                           {"in_place", to_json(row.bytes, row.in_place, ranks_)}});
  }
  if (!rows_.empty()) out["average_busbw_gbs"] = average_bus_gbs();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const std::uint64_t bytes = buckets_[i].elements * sizeof(float);
    nlohmann::json bucket = to_json(bytes, bucket_outcomes_[i], ranks_);
    bucket["tensors"] = buckets_[i].tensors;
    bucket["count"] = buckets_[i].elements;
    bucket["bytes"] = bytes;
    out["buckets"].push_back(bucket);
  }
  if (!buckets_.empty()) {
    out["workload"] = options_.workload;
    out["steps_per_second"] = steps_per_second_;
  }
  out["transport"] = nlohmann::json::parse(to_text(account));
  return out.dump(2);
}

}  // namespace spindrift::coll
