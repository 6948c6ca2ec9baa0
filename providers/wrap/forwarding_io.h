#pragma once
// What a wrapper hands on to the PacketIo it owns without a look at it.
#include <memory>
#include <utility>
#include <vector>

#include "spindrift/provider.h"
#include "spindrift/region_user.h"

namespace spindrift {

// `Base` is PacketIo, or an interface that adds to it.
template <class Base>
class ForwardingIo : public Base, public RegionUser {
 public:
  explicit ForwardingIo(std::unique_ptr<PacketIo> inner)
      : inner_(std::move(inner)), region_user_(dynamic_cast<RegionUser*>(inner_.get())) {}

  Time now() const override { return inner_->now(); }
  std::span<const NetAddress> rails() const override { return inner_->rails(); }
  std::vector<NetAddress> expand(const NetAddress& wildcard) const override {
    return inner_->expand(wildcard);
  }
  Result<NetAddress> source_for(const NetAddress& remote) const override {
    return inner_->source_for(remote);
  }
  std::uint32_t max_packet_bytes(std::uint16_t rail, const NetAddress& remote) const override {
    return inner_->max_packet_bytes(rail, remote);
  }
  Status open_entropies(std::uint16_t rail, std::uint16_t count) override {
    return inner_->open_entropies(rail, count);
  }
  void add_region(LocalKey region, std::span<std::byte> bytes) override {
    if (region_user_ != nullptr) region_user_->add_region(region, bytes);
  }
  void remove_region(LocalKey region) override {
    if (region_user_ != nullptr) region_user_->remove_region(region);
  }
  void release(std::span<const RxPacket> packets) override { inner_->release(packets); }
  std::size_t poll_errors(std::span<IoError> out) override { return inner_->poll_errors(out); }
  void append_wait_fds(std::vector<int>& out) const override { inner_->append_wait_fds(out); }

 protected:
  PacketIo& inner() { return *inner_; }
  const PacketIo& inner() const { return *inner_; }

 private:
  std::unique_ptr<PacketIo> inner_;
  RegionUser* region_user_;  // the same; null: it is none
};

}  // namespace spindrift
