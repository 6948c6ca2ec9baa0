#pragma once
// Algorithms and path policies behind the C tables of spindrift/plugin.h, as the transport knows
// them. Judges the tables; files are plugin_loader's.
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/path_selector.h"
#include "spindrift/plugin.h"
#include "spindrift/result.h"

namespace spindrift {

// One algorithm of a plug-in. Stays where it is: `info()` points into it.
class ForeignCc {
 public:
  explicit ForeignCc(const spindrift_plugin_cc& table);
  ForeignCc(const ForeignCc&) = delete;
  ForeignCc& operator=(const ForeignCc&) = delete;

  const CcInfo& info() const { return info_; }
  const spindrift_plugin_cc& table() const { return table_; }

 private:
  spindrift_plugin_cc table_;
  std::vector<ParameterInfo> parameters_;
  CcInfo info_;
};

class ForeignPathSelector {
 public:
  explicit ForeignPathSelector(const spindrift_plugin_path_selector& table);
  ForeignPathSelector(const ForeignPathSelector&) = delete;
  ForeignPathSelector& operator=(const ForeignPathSelector&) = delete;

  const PathSelectorInfo& info() const { return info_; }
  const spindrift_plugin_path_selector& table() const { return table_; }

 private:
  spindrift_plugin_path_selector table_;
  PathSelectorInfo info_;
};

// What is wrong with a table ("it has no name"); ok: nothing.
Status check_plugin_table(const spindrift_plugin_table* table);
Status check_plugin_cc(const spindrift_plugin_cc* table);
Status check_plugin_path_selector(const spindrift_plugin_path_selector* table);

}  // namespace spindrift
