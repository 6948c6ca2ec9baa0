#pragma once
// What rank 0 prints: the table as it grows, or everything as one JSON object at the end.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/coll/account.h"
#include "tools/coll/options.h"
#include "tools/coll/table.h"
#include "tools/coll/workload.h"

namespace spindrift::coll {

class Report final {
 public:
  Report(const Options& options, std::uint32_t ranks) : options_(options), ranks_(ranks) {}

  // `who`: one line per rank.
  void begin(std::span<const std::string> who);
  void begin_table();
  void add_row(const Row& row);
  // Times are sums over `steps`.
  void add_workload(std::span<const Tensor> tensors, std::span<const Bucket> buckets,
                    std::span<const Outcome> outcomes, std::uint32_t steps);
  void end(const Account& account);

  std::uint64_t wrong() const { return wrong_; }

 private:
  double average_bus_gbs() const;
  void print(const std::string& text) const;
  std::string json(const Account& account) const;

  const Options& options_;
  const std::uint32_t ranks_;
  std::vector<std::string> who_;
  std::vector<Row> rows_;
  std::vector<Bucket> buckets_;
  std::vector<Outcome> bucket_outcomes_;  // times are means over the steps
  double steps_per_second_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace spindrift::coll
