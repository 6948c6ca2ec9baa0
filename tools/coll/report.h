#pragma once
// What rank 0 prints: the table as it grows, or everything as one JSON object at the end.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/coll/account.h"
#include "tools/coll/options.h"
#include "tools/coll/replay.h"
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
  void add_workload(std::span<const Bucket> buckets, const ReplayResult& result);
  // `routes`: a JSON array per rank.
  void end(const Account& account, std::span<const std::string> routes);

  std::uint64_t wrong() const { return wrong_; }

 private:
  double average_bus_gbs() const;
  std::uint64_t bytes_of_bucket(const Bucket& bucket) const;
  double exposed_ms() const;
  double steps_per_second() const;
  void print(const std::string& text) const;
  std::string json(const Account& account, std::span<const std::string> routes) const;

  const Options& options_;
  const std::uint32_t ranks_;
  std::vector<std::string> who_;
  std::vector<Row> rows_;
  std::vector<Bucket> buckets_;
  ReplayResult replayed_;
  std::uint64_t wrong_ = 0;
};

}  // namespace spindrift::coll
