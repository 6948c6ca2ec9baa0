#pragma once
// The library's side of the border: a MessageFabric whose functions are those of a module. Internal
// to providers/module.
#include <memory>

#include "spindrift/message_fabric.h"

#include "providers/module/provider_module.h"

namespace spindrift {

// Over what the module's `open_fabric` gave.
std::unique_ptr<MessageFabric> make_foreign_message_fabric(const ProviderModule& module,
                                                           void* self);

}  // namespace spindrift
