#pragma once
// One process of a soak run: an endpoint on a host of the memory network, behind faults, with its
// registered memory. It can freeze (nobody calls it) and start again.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spindrift/endpoint.h"

#include "providers/wrap/fault_io.h"
#include "tests/soak/plan.h"

namespace spindrift::soak {

inline constexpr std::byte kCanary{0xa5};

// Bytes of a stream that `seed` names.
std::byte pattern(std::uint64_t seed, std::uint64_t at);

// Registered memory between guards, filled with canaries.
class Block {
 public:
  Block(Endpoint& endpoint, std::size_t bytes, Access access);
  std::byte* data() { return bytes_.data() + kGuardBytes; }
  std::span<std::byte> area() { return std::span(bytes_).subspan(kGuardBytes, size_); }
  const MemoryRegion& region() const { return region_; }
  Sge piece(std::size_t at, std::size_t count) const {
    return sge_of(region_, at, static_cast<std::uint32_t>(count));
  }
  bool has_whole_guards() const;
  std::uint64_t digest() const;

 private:
  static constexpr std::size_t kGuardBytes = 256;
  std::size_t size_;
  std::vector<std::byte> bytes_;
  MemoryRegion region_{};
};

class Host {
 public:
  Host(MemoryNetwork& network, const Plan& plan, std::uint32_t number, std::uint64_t seed);

  Endpoint& endpoint() { return *endpoint_; }
  bool is_alive() const { return endpoint_ != nullptr; }
  bool is_frozen(Time now) const { return now < frozen_until_; }
  bool runs(Time now) const { return is_alive() && !is_frozen(now); }
  const std::string& address() const { return address_; }
  std::uint32_t number() const { return number_; }
  std::uint32_t incarnation() const { return incarnation_; }

  void stop();   // the process dies
  void start();  // ... and starts again, knowing nothing
  void freeze(Time until) { frozen_until_ = until; }
  void set_faults(const FaultConfig& faults);

  // Deregisters, at once or as soon as the provider has let the memory go.
  Status deregister(const MemoryRegion& region);
  void deregister_waiting();

  // The shared receive queue: its buffers, each posted or being met.
  bool has_shared_queue() const { return shared_.has_value(); }
  SharedQueueId shared_queue() const { return shared_id_; }
  void fill_shared_queue();
  std::byte* shared_buffer(std::size_t slot) { return shared_->data() + slot * plan_.max_bytes; }
  void return_shared_buffer(std::size_t slot) { shared_free_.push_back(slot); }

 private:
  MemoryNetwork& network_;
  const Plan& plan_;
  std::uint32_t number_;
  std::uint64_t seed_;
  std::uint32_t incarnation_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  FaultIo* faults_ = nullptr;  // inside the endpoint
  std::string address_;
  Time frozen_until_{};
  std::vector<MemoryRegion> waiting_;  // to be deregistered
  std::optional<Block> shared_;
  SharedQueueId shared_id_{};
  std::vector<std::size_t> shared_free_;
};

// RECEIVEs of a shared queue carry their slot and this bit as user_data.
inline constexpr std::uint64_t kSharedBit = 1ULL << 62;

}  // namespace spindrift::soak
