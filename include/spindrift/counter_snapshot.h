#pragma once
// Counters at one moment: names and values that can be kept, added, subtracted and written.
// docs/COUNTERS.md says what each one counts.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spindrift/export.h"
#include "spindrift/stats.h"

namespace spindrift {

// Filled by whoever writes counters: endpoint.counters(snapshot). Values of one name add up, so
// that the counters of several connections or endpoints can be written into one snapshot.
class SPINDRIFT_EXPORT CounterSnapshot final : public CounterWriter {
 public:
  using Entry = std::pair<std::string, std::uint64_t>;

  CounterSnapshot() = default;
  CounterSnapshot(std::initializer_list<Entry> entries) : entries_(entries) {}  // names differ

  void counter(std::string_view name, std::uint64_t value) override;
  void add(const CounterSnapshot& other);
  // What was counted after `earlier`: zero, where that has more.
  CounterSnapshot since(const CounterSnapshot& earlier) const;

  // Zero: nobody wrote that name.
  std::uint64_t value(std::string_view name) const;
  // In the order in which the names first came.
  std::span<const Entry> entries() const { return entries_; }
  // {"packets_sent":12,"bytes_sent":34}, in that order.
  std::string to_json() const;

  bool operator==(const CounterSnapshot& other) const { return entries_ == other.entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace spindrift
