#pragma once
// Our end of a connection to a mortal_peer that serves: its memory is open to everything, its
// RECEIVEs are many. Of media that are reliable by themselves.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "spindrift/open.h"

#include "tests/e2e/child_process.h"

namespace spindrift {

class SurvivingPartner {
 public:
  // What the peer opens, and what we do.
  SurvivingPartner(const std::string& peer_open, const std::string& own_open,
                   const OpenOptions& options);
  bool connect(const ConnectOptions& options = {});
  void post(OpKind kind, std::uint32_t bytes);
  // How all that was posted ended, as far as it did: `limit` each.
  std::vector<OpStatus> wait_all(Duration limit);
  // Writes everything, reads it back, compares.
  void check_transfer(std::uint32_t bytes);
  std::uint64_t counter(std::string_view name) const;
  Endpoint& endpoint() { return *endpoint_; }
  ChildProcess& peer() { return peer_; }
  std::string error() const { return endpoint_->last_error(conn_); }
  const std::string& address() const { return address_; }

 private:
  ChildProcess peer_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Endpoint> endpoint_;
  MemoryRegion region_;
  RemoteRegion target_;
  std::string address_;
  ConnId conn_{};
  std::size_t posted_ = 0;
};

}  // namespace spindrift
