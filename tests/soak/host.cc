#include "tests/soak/host.h"

#include <algorithm>
#include <string_view>

#include "spindrift/open.h"

#include "transport/base/check.h"

namespace spindrift::soak {

std::byte pattern(std::uint64_t seed, std::uint64_t at) {
  const std::uint64_t mixed = (seed * 0x9E3779B97F4A7C15ULL) ^ (at * 0xD6E8FEB86659FD93ULL);
  return static_cast<std::byte>((mixed >> 32) ^ (mixed >> 7));
}

Block::Block(Endpoint& endpoint, std::size_t bytes, Access access)
    : size_(bytes), bytes_(bytes + 2 * kGuardBytes, kCanary) {
  auto registered = endpoint.register_memory(area(), access);
  SPINDRIFT_CHECK(registered.ok());
  region_ = registered.value();
}

bool Block::has_whole_guards() const {
  const auto is_canary = [](std::byte one) { return one == kCanary; };
  return std::all_of(bytes_.begin(), bytes_.begin() + kGuardBytes, is_canary) &&
         std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), is_canary);
}

std::uint64_t Block::digest() const {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
}

Host::Host(MemoryNetwork& network, const Plan& plan, std::uint32_t number, std::uint64_t seed)
    : network_(network), plan_(plan), number_(number), seed_(seed) {
  start();
}

void Host::stop() {
  endpoint_.reset();
  faults_ = nullptr;
  shared_free_.clear();
  waiting_.clear();
  frozen_until_ = Time{};
}

void Host::start() {
  ++incarnation_;
  MemoryHostConfig config;
  for (std::uint32_t rail = 0; rail < plan_.rails; ++rail) {
    NetAddress address{.port = 0, .family = 4};
    address.ip = {10, static_cast<std::uint8_t>(rail), 0, static_cast<std::uint8_t>(number_ + 1)};
    config.addresses.push_back(address);
  }
  config.copies_on_send = plan_.copies_on_send;
  config.max_burst_packets = plan_.max_burst_packets;
  config.max_burst_bytes = plan_.max_burst_packets > 1 ? 65536 : 0;
  std::unique_ptr<PacketIo> io = network_.add_host(config);
  for (const NetAddress& address : config.addresses)
    SPINDRIFT_CHECK(io->add_rail(address).ok());
  std::unique_ptr<FaultIo> faulty = wrap_with_faults(std::move(io), FaultConfig{});
  faults_ = faulty.get();
  EndpointConfig endpoint = plan_.endpoint;
  endpoint.seed = seed_ + 1000 * incarnation_ + number_ + 1;
  auto made = Endpoint::create(std::move(faulty), endpoint, builtin_registry());
  SPINDRIFT_CHECK(made.ok());
  endpoint_ = std::move(made).value();
  SPINDRIFT_CHECK(endpoint_->listen("memory://").ok());
  address_ = endpoint_->local_addresses().at(0);
  if (!plan_.has_shared_queue) return;
  const std::size_t buffers = std::size_t{2} * plan_.slots;
  shared_.emplace(*endpoint_, buffers * plan_.max_bytes, kAllAccess);
  shared_id_ = endpoint_->create_shared_receive_queue(static_cast<std::uint32_t>(buffers)).value();
  for (std::size_t slot = 0; slot < buffers; ++slot)
    shared_free_.push_back(slot);
}

void Host::set_faults(const FaultConfig& faults) {
  if (faults_ == nullptr) return;
  FaultConfig own = faults;
  own.seed = faults.seed + number_;
  faults_->set_faults(own);
}

Status Host::deregister(const MemoryRegion& region) {
  Status gone = endpoint_->deregister_memory(region);
  if (gone.ok() || plan_.copies_on_send || gone.error().code() != ErrorCode::kUnavailable)
    return gone;
  waiting_.push_back(region);
  return ok_status();
}

void Host::deregister_waiting() {
  std::erase_if(waiting_, [this](const MemoryRegion& region) {
    return endpoint_->deregister_memory(region).ok();
  });
}

void Host::fill_shared_queue() {
  while (has_shared_queue() && !shared_free_.empty()) {
    const std::size_t slot = shared_free_.back();
    const Sge piece = shared_->piece(slot * plan_.max_bytes, plan_.max_bytes);
    std::fill_n(shared_buffer(slot), plan_.max_bytes, kCanary);
    const WorkRequest receive{
        .user_data = kSharedBit | slot, .kind = OpKind::kReceive, .local = {&piece, 1}};
    if (endpoint_->post_shared(shared_id_, {&receive, 1}).accepted != 1) return;
    shared_free_.pop_back();
  }
}

}  // namespace spindrift::soak
