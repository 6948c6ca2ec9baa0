#pragma once
// One peer of a shared-memory fabric. Internal to providers/shm.
#include <string>

#include <sys/types.h>

#include "spindrift/message_fabric.h"

#include "providers/shm/shm_choice.h"
#include "providers/shm/shm_memory.h"
#include "providers/shm/shm_ring.h"
#include "providers/shm/shm_socket.h"
#include "transport/base/unique_fd.h"

namespace spindrift {

//  we call:    kCalling --ANSWER--> kOpen          they call: kCalled --CALL--> kAsking
//                                                  --accept()--> kAnswered --CONFIRM--> kOpen
struct ShmPeer {
  enum class Phase : std::uint8_t { kCalling, kCalled, kAsking, kAnswered, kOpen };

  FabricPeer id{};
  Phase phase = Phase::kCalled;
  int side = 0;               // ours in the shared memory
  std::uint16_t address = 0;  // which one it called
  bool is_gone = false;       // `cause` says why; what it wrote before is still to be read
  bool is_gone_told = false;
  bool is_broken = false;  // what it wrote makes no sense: nothing more is read
  pid_t process = 0;
  Time since{};  // kCalled: it must say what it wants
  UniqueFd socket;
  UniqueFd file;  // kAsking: its memory, not mapped before it is accepted
  ShmLayout layout;
  ShmMemory memory;
  ShmWriter writer;
  ShmReader reader;
  FabricStatus seen;  // of its status words
  MessageFabric::Reach reach;
  ShmChoice choice;  // of the way of messages to it
  std::uint32_t long_arrivals = 0;
  ShmCopyRate taken;  // by this process out of the ring
  ShmCopyRate read;   // and from the peer's memory
  std::uint64_t probe_address = 0;
  std::uint64_t probe_value = 0;
  std::uint64_t own_probe = 0;  // the peer reads this word to see whether it can
  std::string cause;
  std::string read_error;
};

}  // namespace spindrift
