#pragma once
// The library's side of the border: a PacketIo whose functions are those of a module, and the
// judgement of its table.
#include <memory>
#include <string>
#include <string_view>

#include "spindrift/provider.h"
#include "spindrift/result.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// What is wrong with a table (built from another source, nameless, ...); ok: nothing.
Status check_provider_module(const ProviderModule* module, std::string_view name);

Status probe_provider_module(const ProviderModule& module);
// `module` must outlive what it returns.
Result<std::unique_ptr<PacketIo>> open_provider_module(const ProviderModule& module,
                                                       const std::string& url);

}  // namespace spindrift
