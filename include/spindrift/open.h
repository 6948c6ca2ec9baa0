#pragma once
// Opening an endpoint by address, with everything that ships. Implemented in plugins/builtin.cc.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spindrift/collective.h"
#include "spindrift/endpoint.h"

namespace spindrift {

// All algorithms, path policies and providers that ship, and those of the shared objects that the
// environment variable SPINDRIFT_PLUGINS names ("./liba.so:/opt/libb.so"). Loads shared objects
// that are named where an algorithm or a policy is chosen. Built once, lives forever.
SPINDRIFT_EXPORT const Registry& builtin_registry();

// A shared object with algorithms and policies (plugin.h) that this process has loaded, or that
// SPINDRIFT_PLUGINS names and that could not be.
struct PluginReport {
  std::string file;
  std::vector<std::string> congestion_controls;
  std::vector<std::string> path_selectors;
  std::string error;  // why it is not loaded; empty: it is
};
SPINDRIFT_EXPORT std::vector<PluginReport> plugins();

// Adds what a shared object offers to a registry of the caller's.
SPINDRIFT_EXPORT Status load_plugin(std::string_view file, Registry& registry);

// Opens the provider that `address` names ("udp://127.0.0.1:0", or just "udp://") and puts an
// endpoint on it; "shm://" serves between processes of one host. Addresses given become its rails.
// `faults` ("loss=1%,reorder=5%", empty: none) and `capture` (a pcap file, empty: none) wrap the
// provider. load_settings() (tunables.h) has what files and the environment say about `endpoint`,
// `udp` and `shm`. Refuses when a shared object of SPINDRIFT_PLUGINS could not be loaded.
struct OpenOptions {
  EndpointConfig endpoint{};
  UdpOptions udp{};  // what the address does not say itself
  ShmOptions shm{};  // the same
  std::string faults{};
  std::string capture{};
};
SPINDRIFT_EXPORT Result<std::unique_ptr<Endpoint>> open_endpoint(std::string_view address,
                                                                 const OpenOptions& options = {});

// A communicator and the endpoints under it.
struct GroupOptions {
  // `same_host` and `segments` are the result's, whatever it says here.
  CommunicatorOptions communicator{};
  // Who carries what. "auto": shared memory between ranks of one host where it connects them, the
  // provider of CommunicatorOptions::address between all others; where `open` asks for faults or a
  // capture, which are about packets, that one alone. The name of a provider: it alone, and "shm"
  // is refused unless all ranks are on one host. Empty: SPINDRIFT_PROVIDER, else "auto".
  std::string provider{};
  OpenOptions open{};  // of both endpoints
};
struct OpenedGroup {
  std::unique_ptr<Endpoint> network;              // reaches all ranks
  std::unique_ptr<Endpoint> same_host;            // null: there is none
  std::unique_ptr<HostSegmentExchange> segments;  // null: ranks share no memory but by endpoints
  std::unique_ptr<Communicator> communicator;

  OpenedGroup() = default;
  OpenedGroup(OpenedGroup&&) = default;
  // What was there goes when `other` does: the communicator before its endpoints.
  OpenedGroup& operator=(OpenedGroup&& other) noexcept {
    std::swap(network, other.network);
    std::swap(same_host, other.same_host);
    std::swap(segments, other.segments);
    std::swap(communicator, other.communicator);
    return *this;
  }
};
// As Communicator::create().
SPINDRIFT_EXPORT Result<OpenedGroup> open_group(Store& store, const GroupOptions& options);

}  // namespace spindrift
