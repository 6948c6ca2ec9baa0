#pragma once
// Addresses and options of ofi://. Nothing here needs libfabric. Internal to providers/libfabric.
//
//   ofi://                          whatever provider libfabric lists first, no address
//   ofi://net                       a provider by libfabric's name, and any free address
//   ofi://tcp;ofi_rxm@10.0.0.1:4793 ... and where the two sides meet: a TCP port of this host
//   ofi://10.0.0.1:4793             the same, of whatever provider the endpoint has
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

struct OfiAddress {
  std::string provider{};            // empty: not said
  std::optional<NetAddress> host{};  // none: not said
};

// Refuses what is no address, with the text and how one is written.
Result<OfiAddress> parse_ofi_address(std::string_view text);

struct OfiOptions {
  std::string provider{};          // of the address; empty: libfabric's first choice
  std::string domain{};            // libfabric's name of a device ("eth0", "mlx5_0"); empty: any
  std::uint32_t buffers = 48;      // messages of one peer that this side has room for
  std::uint32_t read_from = 8192;  // bytes from which on messages are read by the peer, not sent
  std::uint32_t poll_us = 1000;    // between looks of a sleeper, where a provider wakes nobody
  // Tests: what has arrived is taken in an order drawn with this seed. 0: as it came.
  std::uint64_t shuffle_seed = 0;
};

// One row per option of an address, for messages and the documentation.
struct OfiOptionInfo {
  std::string_view name;
  std::string_view unit;
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // 0: it is no number
  std::string_view help;
};
std::span<const OfiOptionInfo> ofi_option_infos();

// Refuses unknown and ill-formed options by name, and two providers in one address.
Result<OfiOptions> parse_ofi_options(const Url& url);

}  // namespace spindrift
