#pragma once
// Shared objects with algorithms and path policies: opened once, checked, kept for ever.
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/open.h"

#include "plugins/foreign.h"

namespace spindrift {

class PluginLoader final : public PartLoader {
 public:
  PluginLoader();
  ~PluginLoader() override;

  // All that `file` offers, added to `registry`, whose names it must not repeat.
  [[nodiscard]] Status add_all(std::string_view file, Registry& registry);
  // add_all for each file of a list with colons. What fails is in reports().
  void add_list(std::string_view files, Registry& registry);

  Result<const CcInfo*> congestion_control(const Registry& registry, std::string_view file,
                                           std::string_view name) override;
  Result<const PathSelectorInfo*> path_selector(const Registry& registry, std::string_view file,
                                                std::string_view name) override;

  // In the order of loading.
  std::vector<PluginReport> reports() const;

 private:
  struct Plugin {
    std::string file;  // as it was named first
    std::string path;  // absolute, without links
    std::deque<ForeignCc> congestion_controls;
    std::deque<ForeignPathSelector> path_selectors;
  };

  // With mutex_ held.
  Result<const Plugin*> load(std::string_view file, const Registry& registry);
  Status check_names(const Plugin& plugin, const Registry& registry) const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<PluginReport> failures_;
};

}  // namespace spindrift
