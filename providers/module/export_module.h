#pragma once
// The table that a module exports, made of the ProviderInfo that a provider of the library itself
// would register. `kInfo` is a constant of namespace scope.
//
//   extern "C" __attribute__((visibility("default"))) const spindrift::ProviderModule*
//   spindrift_provider_module() { return spindrift::exported_module<spindrift::kFoo>(); }
#include <memory>

#include "spindrift/version.h"

#include "providers/module/export_call.h"
#include "providers/module/export_message_fabric.h"
#include "providers/module/export_packet_io.h"

namespace spindrift {

// `kOpen` of the address; null after having reported why.
template <auto kOpen>
void* exported_open(const char* text, std::size_t bytes, const ModuleErrorSink* sink) {
  void* self = nullptr;
  guarded(*sink, [&]() -> Status {
    const auto url = parse_url({text, bytes});
    if (!url.ok()) return url.error();
    auto opened = kOpen(url.value());
    if (!opened.ok()) return opened.error();
    self = std::move(opened).value().release();
    return ok_status();
  });
  return self;
}

template <const ProviderInfo& kInfo>
const ProviderModule* exported_module() {
  static const ProviderModule module = [] {
    ProviderModule out;
    out.library_version = kVersion.data();
    out.name = kInfo.name.data();
    out.probe = [](const ModuleErrorSink* sink) { return guarded(*sink, kInfo.probe); };
    if constexpr (kInfo.open != nullptr) {
      out.open = exported_open<kInfo.open>;
      out.packet_io = packet_io_functions();
    }
    if constexpr (kInfo.open_fabric != nullptr) {
      out.open_fabric = exported_open<kInfo.open_fabric>;
      out.fabric = message_fabric_functions();
    }
    return out;
  }();
  return &module;
}

}  // namespace spindrift
