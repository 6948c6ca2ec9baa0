#include "providers/memory/memory_network.h"

#include "providers/memory/memory_host.h"
#include "providers/memory/memory_wire.h"

namespace spindrift {

MemoryNetwork::MemoryNetwork(const MemoryNetworkConfig& config)
    : wire_(std::make_unique<MemoryWire>(config)) {}
MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<PacketIo> MemoryNetwork::add_host(const MemoryHostConfig& config) {
  return std::make_unique<MemoryHost>(*wire_, config);
}

Time MemoryNetwork::now() const {
  return wire_->now();
}
Time MemoryNetwork::next_event() const {
  return wire_->next_event();
}
void MemoryNetwork::advance_to(Time now) {
  wire_->advance_to(now);
}

void MemoryNetwork::set_path_down(std::uint16_t rail, std::uint16_t entropy, bool is_down) {
  wire_->set_path_down(rail, entropy, is_down);
}
void MemoryNetwork::unplug(std::size_t host, Unplugged how) {
  wire_->unplug(host, how);
}
void MemoryNetwork::plug_in(std::size_t host) {
  wire_->plug_in(host);
}
void MemoryNetwork::say_link(std::size_t host, std::uint16_t rail, bool is_up) {
  wire_->say_link(host, rail, is_up);
}
void MemoryNetwork::set_path_max_packet_bytes(std::uint32_t bytes) {
  wire_->set_path_max_packet_bytes(bytes);
}
void MemoryNetwork::set_one_way_delay(Duration delay) {
  wire_->set_one_way_delay(delay);
}
const MemoryNetworkStats& MemoryNetwork::stats() const {
  return wire_->stats();
}

}  // namespace spindrift
