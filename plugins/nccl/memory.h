#pragma once
// What NCCL has registered: a memory handle is valid for every connection of the process, so one
// Registration stands for the same pages at every engine that has met it (Engine::region_of).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace spindrift::nccl {

struct Registration {
  std::span<std::byte> bytes{};
  std::uint32_t number = 0;  // small, used again
  std::uint32_t users = 0;   // how often it was handed out
};

// NCCL registers the same pages again and again; they share one registration.
class Registrations {
 public:
  // One that covers `bytes`.
  Registration* take(std::span<std::byte> bytes);
  // Null: others still use it. Else it is the caller's to take from the engines, then to retire().
  Registration* give_back(Registration* registration);
  void retire(Registration* registration);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Registration>> by_number_;  // null: free
};

}  // namespace spindrift::nccl
