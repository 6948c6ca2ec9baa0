#include "plugins/plugin_loader.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace spindrift {
namespace {

Error about(std::string_view file, const Error& error) {
  return Error(error.code(), absl::StrFormat("plug-in %s: %s", file, error.message()));
}

std::string dl_error() {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): its text is the thread's own
  return text == nullptr ? "unknown error" : text;
}

// The absolute path without links, so that a file is loaded once under all its names. A name
// without
// '/' is one of the working directory.
Result<std::string> resolve(std::string_view file) {
  char path[PATH_MAX];
  const std::string name(file);
  if (::realpath(name.c_str(), path) != nullptr) return std::string(path);
  const int error = errno;
  if (error == ENOENT)
    return Error(ErrorCode::kNotFound, "there is no such file; give the path of a shared object");
  return Error(ErrorCode::kInvalidArgument,
               absl::StrCat("it cannot be opened: ", std::system_category().message(error)));
}

// A shared object that is closed again unless it is kept.
class SharedObject {
 public:
  explicit SharedObject(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  ~SharedObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  bool is_open() const { return handle_ != nullptr; }
  spindrift_plugin_entry entry() const {
    return reinterpret_cast<spindrift_plugin_entry>(dlsym(handle_, SPINDRIFT_PLUGIN_SYMBOL));
  }
  void keep() { handle_ = nullptr; }

 private:
  void* handle_;
};

Result<const spindrift_plugin_table*> read_table(const SharedObject& object) {
  if (!object.is_open())
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat("it cannot be loaded as a shared object: ", dl_error()));
  const spindrift_plugin_entry entry = object.entry();
  if (entry == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 "it is no plug-in: it exports no function " SPINDRIFT_PLUGIN_SYMBOL
                 " (SPINDRIFT_PLUGIN of plugin_adapter.h makes one)");
  const spindrift_plugin_table* table = entry();
  const Status status = check_plugin_table(table);
  if (!status.ok()) return status.error();
  return table;
}

template <class Part>
std::string names_of(const std::deque<Part>& parts) {
  std::string names;
  for (const Part& part : parts)
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(part.info().name));
  return names;
}

// The part of that name; without a name the only one.
template <class Part>
const Part* choose(const std::deque<Part>& parts, std::string_view name) {
  if (name.empty()) return parts.size() == 1 ? &parts.front() : nullptr;
  for (const Part& part : parts)
    if (part.info().name == name) return &part;
  return nullptr;
}

Error no_choice(std::string_view kind, std::string_view file, std::string_view name,
                const std::string& names) {
  if (names.empty())
    return Error(ErrorCode::kNotFound, absl::StrFormat("plug-in %s offers no %s", file, kind));
  if (name.empty())
    return Error(ErrorCode::kNotFound,
                 absl::StrFormat("plug-in %s offers several: name the %s, %s:NAME, one of: %s",
                                 file, kind, file, names));
  return Error(ErrorCode::kNotFound, absl::StrFormat("plug-in %s offers no %s '%s'; it offers: %s",
                                                     file, kind, name, names));
}

template <class Info>
const Info* find_name(const std::vector<Info>& infos, std::string_view name) {
  for (const Info& info : infos)
    if (info.name == name) return &info;
  return nullptr;
}

Error name_is_taken(std::string_view name) {
  return Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("it offers %s, which is there already; rename it", name));
}

// Why a part of this plug-in may not be called `name`; ok: it may.
template <class Part, class Infos>
Status check_name_is_free(const Part& part, const std::deque<Part>& siblings, const Infos& taken) {
  const std::string_view name = part.info().name;
  for (const Part& sibling : siblings)
    if (&sibling != &part && sibling.info().name == name)
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrFormat("it offers the name %s twice; rename one", name));
  if (find_name(taken, name) != nullptr) return name_is_taken(name);
  return ok_status();
}

}  // namespace

PluginLoader::PluginLoader() = default;
PluginLoader::~PluginLoader() = default;

Status PluginLoader::check_names(const Plugin& plugin, const Registry& registry) const {
  for (const ForeignCc& part : plugin.congestion_controls) {
    Status free =
        check_name_is_free(part, plugin.congestion_controls, registry.congestion_controls());
    if (!free.ok()) return free;
    for (const auto& other : plugins_)
      if (other.get() != &plugin && choose(other->congestion_controls, part.info().name) != nullptr)
        return Error(
            ErrorCode::kInvalidArgument,
            absl::StrFormat("it offers %s, as %s does; rename one", part.info().name, other->file));
  }
  for (const ForeignPathSelector& part : plugin.path_selectors) {
    Status free = check_name_is_free(part, plugin.path_selectors, registry.path_selectors());
    if (!free.ok()) return free;
    for (const auto& other : plugins_)
      if (other.get() != &plugin && choose(other->path_selectors, part.info().name) != nullptr)
        return Error(
            ErrorCode::kInvalidArgument,
            absl::StrFormat("it offers %s, as %s does; rename one", part.info().name, other->file));
  }
  return ok_status();
}

Result<const PluginLoader::Plugin*> PluginLoader::load(std::string_view file,
                                                       const Registry& registry) {
  const Result<std::string> path = resolve(file);
  if (!path.ok()) return about(file, path.error());
  for (const auto& plugin : plugins_)
    if (plugin->path == path.value()) return plugin.get();

  SharedObject object(path.value());
  const auto table = read_table(object);
  if (!table.ok()) return about(file, table.error());
  auto plugin = std::make_unique<Plugin>();
  plugin->file = std::string(file);
  plugin->path = path.value();
  for (std::uint32_t i = 0; i < table.value()->congestion_control_count; ++i) {
    const spindrift_plugin_cc* part = table.value()->congestion_controls[i];
    const Status status = check_plugin_cc(part);
    if (!status.ok()) return about(file, status.error());
    plugin->congestion_controls.emplace_back(*part);
  }
  for (std::uint32_t i = 0; i < table.value()->path_selector_count; ++i) {
    const spindrift_plugin_path_selector* part = table.value()->path_selectors[i];
    const Status status = check_plugin_path_selector(part);
    if (!status.ok()) return about(file, status.error());
    plugin->path_selectors.emplace_back(*part);
  }
  const Status names = check_names(*plugin, registry);
  if (!names.ok()) return about(file, names.error());
  object.keep();
  plugins_.push_back(std::move(plugin));
  return plugins_.back().get();
}

Status PluginLoader::add_all(std::string_view file, Registry& registry) {
  const std::lock_guard guard(mutex_);
  const auto plugin = load(file, registry);
  if (!plugin.ok()) return plugin.error();
  // A file may be named twice, and for several registries.
  for (const ForeignCc& part : plugin.value()->congestion_controls) {
    const CcInfo* taken = find_name(registry.congestion_controls(), part.info().name);
    if (taken != nullptr && taken->origin != part.info().origin)
      return about(file, name_is_taken(part.info().name));
    if (taken == nullptr) registry.add(part.info());
  }
  for (const ForeignPathSelector& part : plugin.value()->path_selectors) {
    const PathSelectorInfo* taken = find_name(registry.path_selectors(), part.info().name);
    if (taken != nullptr && taken->origin != part.info().origin)
      return about(file, name_is_taken(part.info().name));
    if (taken == nullptr) registry.add(part.info());
  }
  return ok_status();
}

void PluginLoader::add_list(std::string_view files, Registry& registry) {
  while (!files.empty()) {
    const std::size_t colon = files.find(':');
    const std::string_view file = files.substr(0, colon);
    files = colon == std::string_view::npos ? std::string_view() : files.substr(colon + 1);
    if (file.empty()) continue;
    const Status status = add_all(file, registry);
    if (status.ok()) continue;
    const std::lock_guard guard(mutex_);
    failures_.push_back({.file = std::string(file),
                         .congestion_controls = {},
                         .path_selectors = {},
                         .error = status.error().message()});
  }
}

Result<const CcInfo*> PluginLoader::congestion_control(const Registry& registry,
                                                       std::string_view file,
                                                       std::string_view name) {
  const std::lock_guard guard(mutex_);
  const auto plugin = load(file, registry);
  if (!plugin.ok()) return plugin.error();
  const auto& parts = plugin.value()->congestion_controls;
  const ForeignCc* part = choose(parts, name);
  if (part == nullptr) return no_choice("congestion control", file, name, names_of(parts));
  return &part->info();
}

Result<const PathSelectorInfo*> PluginLoader::path_selector(const Registry& registry,
                                                            std::string_view file,
                                                            std::string_view name) {
  const std::lock_guard guard(mutex_);
  const auto plugin = load(file, registry);
  if (!plugin.ok()) return plugin.error();
  const auto& parts = plugin.value()->path_selectors;
  const ForeignPathSelector* part = choose(parts, name);
  if (part == nullptr) return no_choice("path selector", file, name, names_of(parts));
  return &part->info();
}

std::vector<PluginReport> PluginLoader::reports() const {
  const std::lock_guard guard(mutex_);
  std::vector<PluginReport> out;
  for (const auto& plugin : plugins_) {
    PluginReport report;
    report.file = plugin->file;
    for (const ForeignCc& part : plugin->congestion_controls)
      report.congestion_controls.emplace_back(part.info().name);
    for (const ForeignPathSelector& part : plugin->path_selectors)
      report.path_selectors.emplace_back(part.info().name);
    out.push_back(std::move(report));
  }
  out.insert(out.end(), failures_.begin(), failures_.end());
  return out;
}

}  // namespace spindrift
