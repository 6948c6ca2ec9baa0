#pragma once
// Name -> factory for everything exchangeable at run time. An ordinary object: nothing registers
// itself. open.h has one filled with what ships.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/export.h"
#include "spindrift/loss_rule.h"
#include "spindrift/path_selector.h"
#include "spindrift/provider.h"
#include "spindrift/result.h"

namespace spindrift {

class Registry;

// Where names that are files ("./libfoo.so") are looked up. Shared by threads. What it finds lives
// as long as the process.
class PartLoader {
 public:
  virtual ~PartLoader() = default;
  // `name` may be empty when the file offers one only. `registry` holds the names already taken.
  virtual Result<const CcInfo*> congestion_control(const Registry& registry, std::string_view file,
                                                   std::string_view name) = 0;
  virtual Result<const PathSelectorInfo*> path_selector(const Registry& registry,
                                                        std::string_view file,
                                                        std::string_view name) = 0;
};

// Whether a choice ("nscc", "./libfoo.so:g=0.1") names a file. Never pass one on from a peer: what
// is loaded runs.
SPINDRIFT_EXPORT bool names_file(std::string_view spec);

class Registry {
 public:
  void add(const CcInfo& info) { congestion_controls_.push_back(info); }
  void add(const PathSelectorInfo& info) { path_selectors_.push_back(info); }
  void add(const LossRuleInfo& info) { loss_rules_.push_back(info); }
  void add(const ProviderInfo& info) { providers_.push_back(info); }
  // `loader` must outlive the registry and its copies.
  void load_files_with(PartLoader& loader) { loader_ = &loader; }

  // `spec` is a name with optional parameters, "dcqcn:g=0.004,timer_us=55", and where there are
  // sets of them one by its name, "dcqcn:set=mlx5,g=0.004". Unknown names, sets, parameters and
  // values outside their bounds are refused with the list of what there is. What holds a '/' or
  // ends with ".so" is a file, "./libfoo.so", "./libfoo.so:g=0.1", or where it offers several,
  // "./libfoo.so:name:g=0.1" (no ':' in the path itself).
  struct CcChoice {
    const CcInfo* info = nullptr;
    std::vector<double> values;
  };
  SPINDRIFT_EXPORT Result<CcChoice> find_congestion_control(std::string_view spec) const;
  SPINDRIFT_EXPORT Result<const PathSelectorInfo*> find_path_selector(std::string_view name) const;
  SPINDRIFT_EXPORT Result<const LossRuleInfo*> find_loss_rule(std::string_view name) const;
  SPINDRIFT_EXPORT Result<const ProviderInfo*> find_provider(std::string_view scheme) const;

  const std::vector<CcInfo>& congestion_controls() const { return congestion_controls_; }
  const std::vector<PathSelectorInfo>& path_selectors() const { return path_selectors_; }
  const std::vector<LossRuleInfo>& loss_rules() const { return loss_rules_; }
  const std::vector<ProviderInfo>& providers() const { return providers_; }

 private:
  std::vector<CcInfo> congestion_controls_;
  std::vector<PathSelectorInfo> path_selectors_;
  std::vector<LossRuleInfo> loss_rules_;
  std::vector<ProviderInfo> providers_;
  PartLoader* loader_ = nullptr;
};

}  // namespace spindrift
