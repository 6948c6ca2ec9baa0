#include "providers/module/foreign_module.h"

#include <array>
#include <bit>

#include "spindrift/version.h"

#include "providers/module/foreign_message_fabric.h"
#include "providers/module/foreign_packet_io.h"
#include "providers/module/taken_error.h"

namespace spindrift {
namespace {

// Of a table that holds pointers to functions, and nothing else.
template <class Table>
bool has_all_functions(const Table& table) {
  using Pointers = std::array<void*, sizeof(Table) / sizeof(void*)>;
  for (const void* pointer : std::bit_cast<Pointers>(table))
    if (pointer == nullptr) return false;
  return true;
}

bool is_same_build(const ProviderModule& module) {
  const ProviderModule ours;
  return module.struct_size == ours.struct_size && module.version == ours.version &&
         module.rx_packet_bytes == ours.rx_packet_bytes &&
         module.tx_packet_bytes == ours.tx_packet_bytes &&
         module.io_error_bytes == ours.io_error_bytes &&
         module.packet_io_bytes == ours.packet_io_bytes && module.caps_bytes == ours.caps_bytes &&
         module.fabric_op_bytes == ours.fabric_op_bytes &&
         module.fabric_completion_bytes == ours.fabric_completion_bytes &&
         module.fabric_bytes == ours.fabric_bytes &&
         module.fabric_caps_bytes == ours.fabric_caps_bytes && module.library_version != nullptr &&
         module.library_version == kVersion;
}

// What it opens it can also run, and it opens something.
bool is_complete(const ProviderModule& module) {
  if (module.probe == nullptr) return false;
  if (module.open == nullptr && module.open_fabric == nullptr) return false;
  if (module.open != nullptr && !has_all_functions(module.packet_io)) return false;
  return module.open_fabric == nullptr || has_all_functions(module.fabric);
}

using Open = void* (*)(const char* url, std::size_t bytes, const ModuleErrorSink* sink);

Result<void*> open_by(Open open, const std::string& url) {
  void* self = nullptr;
  const Status opened = called([&](const ModuleErrorSink* sink) {
    self = open(url.data(), url.size(), sink);
    return self != nullptr;
  });
  if (!opened.ok()) return opened.error();
  return self;
}

Error has_none(const ProviderModule& module, const char* what) {
  return Error(ErrorCode::kUnsupported,
               "the module of " + std::string(module.name) + " brings no " + what);
}

}  // namespace

Status check_provider_module(const ProviderModule* module, std::string_view name) {
  if (module == nullptr) return Error(ErrorCode::kUnsupported, "it offers no provider");
  if (!is_same_build(*module))
    return Error(ErrorCode::kUnsupported, "it belongs to another version of the library than " +
                                              std::string(kVersion) +
                                              "; install both from one build");
  if (module->name == nullptr || module->name != name)
    return Error(ErrorCode::kUnsupported, "it is not the provider " + std::string(name));
  if (!is_complete(*module))
    return Error(ErrorCode::kUnsupported, "a function is missing in its table");
  return ok_status();
}

Status probe_provider_module(const ProviderModule& module) {
  return called(module.probe);
}

Result<std::vector<DeviceFact>> describe_devices_of(const ProviderModule& module,
                                                    const std::string& url) {
  std::vector<DeviceFact> out;
  if (module.describe == nullptr) return out;
  const ModuleFactSink facts{.take =
                                 [](void* to, const ModuleFact* fact) {
                                   static_cast<std::vector<DeviceFact>*>(to)->push_back(
                                       {.device = std::string(fact->device),
                                        .name = std::string(fact->name),
                                        .value = std::string(fact->value)});
                                 },
                             .to = &out};
  const Status described =
      called([&](const ModuleErrorSink* sink) { return module.describe(url, &facts, sink); });
  if (!described.ok()) return described.error();
  return out;
}

Result<std::unique_ptr<PacketIo>> open_packets_of(const ProviderModule& module,
                                                  const std::string& url) {
  if (module.open == nullptr) return has_none(module, "provider of packets");
  const auto self = open_by(module.open, url);
  if (!self.ok()) return self.error();
  return make_foreign_packet_io(module, self.value());
}

Result<std::unique_ptr<MessageFabric>> open_fabric_of(const ProviderModule& module,
                                                      const std::string& url) {
  if (module.open_fabric == nullptr) return has_none(module, "reliable medium");
  const auto self = open_by(module.open_fabric, url);
  if (!self.ok()) return self.error();
  return make_foreign_message_fabric(module, self.value());
}

}  // namespace spindrift
