#pragma once
// Why something of a device does not work, and what to do about it. Internal to providers/verbs.
#include <cstdint>
#include <span>
#include <string>

#include <infiniband/verbs.h>

#include "spindrift/result.h"

namespace spindrift {

// "Cannot allocate memory"
std::string in_words(int error);

// After ibv_get_device_list() found none; `error` 0: it worked, and the list is empty.
std::string explain_no_device(int error);
std::string explain_open(int error);

// Memory, a device's or the host's, that cannot be registered: `error`, and how much this process
// may lock.
Error explain_registration(std::size_t bytes, int error, const std::string& where, bool is_device);
std::string memory_lock_advice(std::size_t bytes);
// The pure part: `limit` is RLIMIT_MEMLOCK, UINT64_MAX: none.
std::string memory_lock_advice(std::size_t bytes, std::uint64_t limit);

// "transport retry counter exceeded (the peer's port is down, ...)": a completion's status, and
// what usually is behind it. Of an unsuccessful completion only the status and the vendor's code
// mean anything.
std::string explain_completion(ibv_wc_status status, std::uint32_t vendor_error);

// Where the kernel does not copy registered pages for a child itself, libibverbs keeps them from
// the child. To be called before any device is opened.
void prepare_for_fork();

// Which port of its device an interface belongs to: 1, 2, ...; 0: unknown.
std::uint8_t port_of_interface(const std::string& interface);

}  // namespace spindrift
