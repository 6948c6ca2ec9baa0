#pragma once
// The 128 bytes that a listener's process hands to the one that will connect. NCCL copies them and
// passes the same copy to every connect() of one attempt, so the connecting side keeps the number
// of its attempt in them, too. Nothing in it is trusted.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

inline constexpr std::uint32_t kHandleVersion = 2;

struct Handle {
  std::uint64_t nonce = 0;   // which listener is meant
  std::uint64_t host = 0;    // identity of the listener's host
  std::uint64_t shm_id = 0;  // its shared-memory address (shm_name()); 0: it has none
  std::vector<NetAddress> rails;
  std::string provider = "udp";  // whose addresses these are
};

bool fits_handle(const std::vector<NetAddress>& rails);
// The buffer is kHandleBytes long; unused bytes become zero.
void write_handle(const Handle& handle, void* buffer);
// Refuses what another program or version wrote, with a sentence.
Result<Handle> read_handle(const void* buffer);

// The attempt number that the connecting side has left in its copy; zero: none yet.
std::uint32_t attempt_of(const void* buffer);
void set_attempt(void* buffer, std::uint32_t attempt);

std::string shm_name(std::uint64_t shm_id);  // "nccl-00000000000004d2"

// What travels in the private data of a connection request, and of its answer.
struct Greeting {
  static constexpr std::size_t kBytes = 64;
  std::uint64_t nonce = 0;
  std::vector<std::byte> mailbox;  // a RemoteRegion: the sender's mailbox, and of the receiver any
};
std::vector<std::byte> write_greeting(const Greeting& greeting);
Result<Greeting> read_greeting(std::span<const std::byte> bytes);

}  // namespace spindrift::nccl
