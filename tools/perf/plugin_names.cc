#include "tools/perf/plugin_names.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "spindrift/open.h"

#include "absl/strings/str_cat.h"

namespace spindrift::perf {
namespace {

constexpr const char* kVariable = "SPINDRIFT_PLUGINS";

void announce(const std::optional<std::string>& choice) {
  if (!choice || !names_file(*choice)) return;
  const char* others = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): no threads yet
  const std::string file = choice->substr(0, choice->find(':'));
  const std::string files =
      others == nullptr || *others == '\0' ? file : absl::StrCat(others, ":", file);
  setenv(kVariable, files.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no threads yet
}

// "file:name:a=1" or "file:a=1" -> "a=1"
std::string_view parameters_of(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  const std::size_t equals = colon == std::string_view::npos ? colon : spec.find('=', colon);
  if (equals == std::string_view::npos) return {};
  return spec.substr(spec.substr(0, equals).rfind(':') + 1);
}

}  // namespace

Status adopt_plugins(PerfArguments& arguments) {
  announce(arguments.congestion_control);
  announce(arguments.path_selector);
  if (arguments.congestion_control && names_file(*arguments.congestion_control)) {
    std::string& spec = *arguments.congestion_control;
    const auto found = builtin_registry().find_congestion_control(spec);
    if (!found.ok()) return found.error();
    const std::string name(found.value().info->name);
    const std::string parameters(parameters_of(spec));
    spec = parameters.empty() ? name : absl::StrCat(name, ":", parameters);
  }
  if (arguments.path_selector && names_file(*arguments.path_selector)) {
    const auto found = builtin_registry().find_path_selector(*arguments.path_selector);
    if (!found.ok()) return found.error();
    *arguments.path_selector = std::string(found.value()->name);
  }
  return ok_status();
}

}  // namespace spindrift::perf
