#pragma once
// The UNIX sockets over which two processes meet: addresses, greetings, descriptors, wake-ups.
// Internal to providers/shm.
//
//   caller  --CALL (memfd)-->  called     then each tries to read the other's memory
//           <--ANSWER or REFUSE--       (NO USE: refused before the engine was asked; a sentence)
//           --CONFIRM-->
//   either  --one byte-->      "you were asleep, there is something"
//   either  closes: whatever happened to the process, the other is told by the kernel
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "spindrift/message_fabric.h"

#include "transport/base/unique_fd.h"

namespace spindrift {

enum class ShmGreetingKind : std::uint32_t {
  kCall = 1,
  kAnswer = 2,
  kRefuse = 3,
  kConfirm = 4,
  kNoUse = 5
};

// As it lies on the socket: both processes run on one machine.
struct ShmGreeting {
  static constexpr std::uint32_t kMagic = 0x53445348;
  std::uint32_t magic = kMagic;
  std::uint32_t version = 0;
  ShmGreetingKind kind = ShmGreetingKind::kCall;
  std::uint32_t ring_bytes = 0;     // kCall
  std::uint64_t probe_address = 0;  // where `probe_value` stands in the sender; 0: do not read
  std::uint64_t probe_value = 0;
  std::uint32_t reads_peer = 0;  // kAnswer, kConfirm: the sender can read the receiver's memory
  std::uint32_t hello_bytes = 0;
  std::array<std::byte, kFabricHelloBytes> hello{};

  std::span<const std::byte> hello_span() const { return std::span(hello).first(hello_bytes); }
  void set_hello(std::span<const std::byte> bytes);
};

// Where the socket of an address lies: "name" in /dev/shm, "/absolute/path" there. Refuses what is
// no address, or too long for a socket.
Result<std::string> shm_socket_path(std::string_view address);

// A listening socket; takes the place of one that a dead process left behind.
Result<UniqueFd> listen_shm(const std::string& path);
Result<UniqueFd> connect_shm(const std::string& path);

// `fd` < 0: none. Never blocks; errors are those of the connection.
Status send_greeting(int socket, const ShmGreeting& greeting, int fd);
void send_wake_up(int socket);

struct ShmReceived {
  enum class Kind : std::uint8_t { kNothing, kGreeting, kWakeUp, kNonsense, kEnd };
  Kind kind = Kind::kNothing;
  ShmGreeting greeting{};
  UniqueFd fd{};
};
ShmReceived receive_greeting(int socket);

// The process at the other end, in our PID namespace; 0: it is in none that we see.
pid_t peer_process(int socket);

}  // namespace spindrift
