#pragma once
// Reading another process's memory (process_vm_readv). Internal to providers/shm.
#include <cstdint>
#include <span>

#include <sys/types.h>

#include "spindrift/memory.h"
#include "spindrift/message_fabric.h"

namespace spindrift {

// Whether this process may read the word `value` at `address` of that one. False for a process of
// another user, under Yama's or a container's restrictions, or in a PID namespace that we do not
// see (0).
bool can_read_process(pid_t process, std::uint64_t address, std::uint64_t value);

// Zero, or the errno that ended it. What arrived before is unspecified.
int read_process(pid_t process, std::span<const RemoteSpan> from, std::span<const Sge> into);

}  // namespace spindrift
