#pragma once
// MessageFabric between processes of one host: rings in a memfd that is handed over a UNIX socket
// for what is small, one copy by process_vm_readv for what is large where the kernel allows it, and
// pipelined copying through the rings where not. Linux.
#include <memory>

#include "spindrift/config.h"
#include "spindrift/message_fabric.h"
#include "spindrift/provider.h"

namespace spindrift {

// Scheme "shm".
const ProviderInfo& shm_provider();

Result<std::unique_ptr<MessageFabric>> open_shm(const ShmOptions& options);

}  // namespace spindrift
