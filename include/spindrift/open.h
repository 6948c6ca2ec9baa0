#pragma once
// Opening an endpoint by address, with everything that ships. Implemented in plugins/builtin.cc.
#include <memory>
#include <string_view>

#include "spindrift/endpoint.h"

namespace spindrift {

// All algorithms, path policies and providers that ship. Built once, lives forever.
const Registry& builtin_registry();

// Opens the provider that `address` names ("udp://127.0.0.1:0", or just "udp://") and puts an
// endpoint on it. Addresses given become its rails. `faults` ("loss=1%,reorder=5%", empty: none)
// and `capture` (a pcap file, empty: none) wrap the provider.
struct OpenOptions {
  EndpointConfig endpoint{};
  std::string faults;
  std::string capture;
};
Result<std::unique_ptr<Endpoint>> open_endpoint(std::string_view address,
                                                const OpenOptions& options = {});

}  // namespace spindrift
