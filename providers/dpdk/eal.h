#pragma once
// DPDK's environment (EAL) in this process: started once, on first use, in a thread of its own, and
// never cleaned up, because it cannot be started a second time. Internal to providers/dpdk.
#include <atomic>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include <rte_lcore.h>
#include <sched.h>

#include "spindrift/result.h"

namespace spindrift {

// Starts it, or says why it does not start. `first_device` decides whether PCI devices are looked
// for: the environment variable SPINDRIFT_DPDK_EAL has further arguments, which go before ours.
Status start_eal(std::string_view first_device);

// The arguments that start_eal() gives. Pure but for what the host says of its memory.
struct EalHost {
  bool has_hugepages = false;  // free ones, enough for the pools
  int process = 0;
  std::string cpus;  // that this process may use: "0-3,6"
};
std::vector<std::string> eal_arguments(std::string_view first_device, std::string_view said,
                                       const EalHost& host);

// False in the child of a fork: DPDK's threads and locks are not there.
inline std::atomic<bool> is_forked_from_eal{false};
inline bool is_eal_usable() {
  return !is_forked_from_eal.load(std::memory_order_relaxed);
}

// To be called by a thread before it touches packets: gives it caches of its own, once.
void register_thread();
inline void use_thread() {
  if (rte_lcore_id() == LCORE_ID_ANY) [[unlikely]]
    register_thread();
}

// Keeps the death of a peer on a socket from ending this process: drivers of memory links write to
// theirs as if nobody could be gone. For the calling thread, while it exists.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

// Threads that DPDK and its drivers make meanwhile inherit the calling thread's scheduling. They
// sleep until a peer connects or a link changes; at the real-time priority of a thread that polls
// on the same processor they would never have a turn. They get one more, and turns among
// themselves.
class ControlThreadsFirst {
 public:
  ControlThreadsFirst();
  ~ControlThreadsFirst();
  ControlThreadsFirst(const ControlThreadsFirst&) = delete;
  ControlThreadsFirst& operator=(const ControlThreadsFirst&) = delete;

 private:
  int policy_ = 0;
  sched_param before_{};
  bool is_raised_ = false;
};

// "0000:3b:00.0" and the like.
bool is_pci_address(std::string_view device);

// What DPDK has said in this process lately, in one line; for messages.
std::string eal_said();
// Forgets it, so that the next message is about what comes now.
void forget_eal_said();

}  // namespace spindrift
