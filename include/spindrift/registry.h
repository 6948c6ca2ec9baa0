#pragma once
// Name -> factory for everything exchangeable at run time. An ordinary object: nothing registers
// itself. open.h has one filled with what ships.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/congestion_control.h"
#include "spindrift/path_selector.h"
#include "spindrift/provider.h"
#include "spindrift/result.h"

namespace spindrift {

class Registry {
 public:
  void add(const CcInfo& info) { congestion_controls_.push_back(info); }
  void add(const PathSelectorInfo& info) { path_selectors_.push_back(info); }
  void add(const ProviderInfo& info) { providers_.push_back(info); }

  // `spec` is a name with optional parameters, "dcqcn:g=0.004,timer_us=55". Unknown names,
  // parameters and values outside their bounds are refused with the list of what there is.
  struct CcChoice {
    const CcInfo* info = nullptr;
    std::vector<double> values;
  };
  Result<CcChoice> find_congestion_control(std::string_view spec) const;
  Result<const PathSelectorInfo*> find_path_selector(std::string_view name) const;
  Result<const ProviderInfo*> find_provider(std::string_view scheme) const;

  const std::vector<CcInfo>& congestion_controls() const { return congestion_controls_; }
  const std::vector<PathSelectorInfo>& path_selectors() const { return path_selectors_; }
  const std::vector<ProviderInfo>& providers() const { return providers_; }

 private:
  std::vector<CcInfo> congestion_controls_;
  std::vector<PathSelectorInfo> path_selectors_;
  std::vector<ProviderInfo> providers_;
};

}  // namespace spindrift
