#pragma once
// The library's side of the border: the judgement of a module's table, and what it opens.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/message_fabric.h"
#include "spindrift/provider.h"
#include "spindrift/result.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// What is wrong with a table (built from another source, nameless, ...); ok: nothing.
Status check_provider_module(const ProviderModule* module, std::string_view name);

Status probe_provider_module(const ProviderModule& module);

struct DeviceFact {
  std::string device;
  std::string name;
  std::string value;
};
// Empty where the module says nothing about devices.
Result<std::vector<DeviceFact>> describe_devices_of(const ProviderModule& module,
                                                    const std::string& url);

// kUnsupported where the module has none of the kind.
Result<std::unique_ptr<PacketIo>> open_packets_of(const ProviderModule& module,
                                                  const std::string& url);
Result<std::unique_ptr<MessageFabric>> open_fabric_of(const ProviderModule& module,
                                                      const std::string& url);

}  // namespace spindrift
