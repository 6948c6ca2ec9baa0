#include "plugins/provider_modules.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace spindrift {
namespace {

// What a provider in a shared object of its own is, before that is loaded.
struct Module {
  enum class Brings : std::uint8_t { kPackets, kFabric, kBoth };
  std::string_view name;
  Brings brings;
  std::string_view summary;
  std::string_view remedy;  // what to install where it cannot be loaded
};

constexpr Module kDpdk{
    .name = "dpdk",
    .brings = Module::Brings::kPackets,
    .summary = "Ethernet ports driven from user space, and DPDK's memory links",
    .remedy = "it needs DPDK (Debian: apt-get install dpdk), and a build with libdpdk-dev"};

constexpr Module kOfi{
    .name = "ofi",
    .brings = Module::Brings::kFabric,
    .summary = "reliable datagrams of libfabric: net, tcp;ofi_rxm, shm, efa, ...",
    .remedy =
        "it needs libfabric (Debian: apt-get install libfabric1), and a build with libfabric-dev"};

constexpr Module kVerbs{
    .name = "verbs",
    .brings = Module::Brings::kBoth,
    .summary = "InfiniBand and RoCE NICs through libibverbs",
    .remedy =
        "it needs libibverbs (Debian: apt-get install ibverbs-providers), and a build with "
        "libibverbs-dev"};

// Never destroyed: a module stays loaded.
struct LoadedModule {
  std::mutex mutex;
  const ProviderModule* table = nullptr;
};
template <const Module& kModule>
LoadedModule& loaded() {
  static auto* const one = new LoadedModule;
  return *one;
}

// The file that holds this code: the library, or the program, whose argv[0] says nothing of where
// it lies when it was found by PATH.
std::string own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&provider_module_folders);
  if (dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
  if (map != nullptr && map->l_name != nullptr && *map->l_name != 0) return map->l_name;
  std::error_code unreadable;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  return unreadable ? std::string(info.dli_fname) : program.string();
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

Result<const ProviderModule*> load_file(const Module& module, const std::string& path) {
  // What a module starts may not be stopped again: it stays, whatever comes.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): its text is the thread's own
    return Error(ErrorCode::kUnsupported,
                 absl::StrCat("the provider's module ", path,
                              " cannot be loaded: ", text == nullptr ? "unknown error" : text, "; ",
                              std::string(module.remedy)));
  }
  const auto entry = reinterpret_cast<ProviderModuleEntry>(dlsym(handle, kProviderModuleSymbol));
  const ProviderModule* table = entry == nullptr ? nullptr : entry();
  const Status status = check_provider_module(table, module.name);
  if (status.ok()) return table;
  dlclose(handle);
  return Error(
      ErrorCode::kUnsupported,
      absl::StrCat("the provider's module ", path, " cannot be used: ", status.error().message()));
}

Result<const ProviderModule*> load(const Module& module, LoadedModule& loaded) {
  const std::lock_guard guard(loaded.mutex);
  if (loaded.table != nullptr) return loaded.table;
  const std::string file = absl::StrCat("libspindrift-", std::string(module.name), ".so");
  std::string looked;
  for (const std::string& folder : provider_module_folders()) {
    const std::string path = absl::StrCat(folder, "/", file);
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", folder);
    if (::access(path.c_str(), F_OK) != 0) continue;
    auto table = load_file(module, path);
    if (table.ok()) loaded.table = table.value();
    return table;
  }
  return Error(ErrorCode::kUnsupported,
               absl::StrCat("there is no ", file, " in ", looked, ": ", std::string(module.remedy),
                            "; SPINDRIFT_MODULES names other folders"));
}

std::string to_text(const Url& url) {
  std::string out = url.scheme + "://";
  for (std::size_t i = 0; i < url.hosts.size(); ++i)
    absl::StrAppend(&out, i == 0 ? "" : ",", url.hosts[i]);
  for (std::size_t i = 0; i < url.options.size(); ++i)
    absl::StrAppend(&out, i == 0 ? "?" : "&", url.options[i].first, "=", url.options[i].second);
  return out;
}

template <const Module& kModule>
Result<std::unique_ptr<PacketIo>> open_packets(const Url& url) {
  const auto module = load(kModule, loaded<kModule>());
  if (!module.ok()) return module.error();
  return open_packets_of(*module.value(), to_text(url));
}

template <const Module& kModule>
Result<std::unique_ptr<MessageFabric>> open_fabric(const Url& url) {
  const auto module = load(kModule, loaded<kModule>());
  if (!module.ok()) return module.error();
  return open_fabric_of(*module.value(), to_text(url));
}

template <const Module& kModule>
Status probe() {
  const auto module = load(kModule, loaded<kModule>());
  if (!module.ok()) return module.error();
  return probe_provider_module(*module.value());
}

template <const Module& kModule>
constexpr ProviderInfo info_of() {
  ProviderInfo info{.name = kModule.name, .summary = kModule.summary, .probe = probe<kModule>};
  if constexpr (kModule.brings != Module::Brings::kFabric) info.open = open_packets<kModule>;
  if constexpr (kModule.brings != Module::Brings::kPackets) info.open_fabric = open_fabric<kModule>;
  return info;
}

template <const Module& kModule>
Result<std::vector<DeviceFact>> describe(const Url& url) {
  const auto module = load(kModule, loaded<kModule>());
  if (!module.ok()) return module.error();
  return describe_devices_of(*module.value(), to_text(url));
}

}  // namespace

std::span<const ProviderInfo> module_providers() {
  static constexpr ProviderInfo kAll[] = {info_of<kDpdk>(), info_of<kOfi>(), info_of<kVerbs>()};
  return kAll;
}

Result<std::vector<DeviceFact>> describe_devices(const Url& url) {
  if (url.scheme == kDpdk.name) return describe<kDpdk>(url);
  if (url.scheme == kOfi.name) return describe<kOfi>(url);
  if (url.scheme == kVerbs.name) return describe<kVerbs>(url);
  return std::vector<DeviceFact>();
}

bool asks_for_packets(const Url& url) {
  for (const auto& [key, value] : url.options)
    if (key == "transport") return value == "ud" || value == "uc";
  return false;
}

ListenAddresses listen_addresses(const std::string& address, std::uint16_t device_port) {
  const std::string scheme = address.substr(0, address.find("://"));
  if (!names_devices(scheme)) {
    const std::size_t question = address.find('?');
    if (question == std::string::npos) return {scheme + "://", address};
    return {scheme + "://" + address.substr(question), address.substr(0, question)};
  }
  const bool says_port =
      address.find("?port=") != std::string::npos || address.find("&port=") != std::string::npos;
  const bool has_options = address.find('?') != std::string::npos;
  std::string open = address;
  if (!says_port) absl::StrAppend(&open, has_options ? "&" : "?", "port=", device_port);
  return {open, scheme + "://"};
}

std::vector<std::string> provider_module_folders() {
  std::vector<std::string> out;
  const char* named = std::getenv("SPINDRIFT_MODULES");  // NOLINT(concurrency-mt-unsafe): only read
  for (std::string_view left = named == nullptr ? "" : named; !left.empty();) {
    const std::size_t colon = left.find(':');
    if (colon != 0) out.emplace_back(left.substr(0, colon));
    left = colon == std::string_view::npos ? std::string_view() : left.substr(colon + 1);
  }
  if (const std::string file = own_file(); !file.empty()) {
    const std::string folder = folder_of(file);
    out.push_back(folder + "/spindrift");
    out.push_back(folder + "/../" SPINDRIFT_LIBRARY_FOLDER "/spindrift");
  }
  return out;
}

}  // namespace spindrift
