#include "plugins/provider_modules.h"

#include <array>
#include <cstdlib>
#include <mutex>

#include <dlfcn.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "providers/module/foreign_packet_io.h"

namespace spindrift {
namespace {

struct Module {
  std::string_view name;
  std::string_view remedy;  // what to install where it cannot be loaded
  std::mutex mutex;
  const ProviderModule* table = nullptr;
};

// Never destroyed: a module stays loaded.
Module& dpdk_module() {
  static auto* const one = new Module{
      .name = "dpdk",
      .remedy = "it needs DPDK (Debian: apt-get install dpdk), and a build with libdpdk-dev",
      .mutex = {}};
  return *one;
}

std::string folder_of(const char* file) {
  const std::string path(file);
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

Result<const ProviderModule*> load(Module& module) {
  const std::lock_guard guard(module.mutex);
  if (module.table != nullptr) return module.table;
  const std::string file = absl::StrCat("libspindrift-", std::string(module.name), ".so");
  std::string looked;
  for (const std::string& folder : provider_module_folders()) {
    const std::string path = absl::StrCat(folder, "/", file);
    absl::StrAppend(&looked, looked.empty() ? "" : ", ", folder);
    if (::access(path.c_str(), F_OK) != 0) continue;
    auto loaded = load_file(module, path);
    if (loaded.ok()) module.table = loaded.value();
    return loaded;
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

template <Module& (*kModule)()>
Result<std::unique_ptr<PacketIo>> open(const Url& url) {
  const auto module = load(kModule());
  if (!module.ok()) return module.error();
  return open_provider_module(*module.value(), to_text(url));
}

template <Module& (*kModule)()>
Status probe() {
  const auto module = load(kModule());
  if (!module.ok()) return module.error();
  return probe_provider_module(*module.value());
}

}  // namespace

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
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&provider_module_folders), &info) != 0 &&
      info.dli_fname != nullptr) {
    // The library, or a program that holds it.
    const std::string folder = folder_of(info.dli_fname);
    out.push_back(folder + "/spindrift");
    out.push_back(folder + "/../" SPINDRIFT_LIBRARY_FOLDER "/spindrift");
  }
  return out;
}

const ProviderInfo& dpdk_provider() {
  static constexpr ProviderInfo kInfo{
      .name = "dpdk",
      .summary = "Ethernet ports driven from user space, and DPDK's memory links",
      .open = open<dpdk_module>,
      .probe = probe<dpdk_module>};
  return kInfo;
}

}  // namespace spindrift
