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
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

namespace spindrift {

struct OfiAddress {
  std::string provider{};            // empty: not said
  std::optional<NetAddress> host{};  // none: not said
};

// Refuses what is no address, with the text and how one is written.
Result<OfiAddress> parse_ofi_address(std::string_view text);

// Domains of one endpoint.
inline constexpr std::size_t kMostOfiRails = 4;

struct OfiOptions {
  std::string provider{};  // of the address; empty: libfabric's first choice
  // libfabric's names of devices ("eth0", "mlx5_0"), each a rail; empty: any one.
  std::vector<std::string> domains{};
  std::uint32_t buffers = 48;      // messages of one peer that this side has room for
  std::uint32_t read_from = 8192;  // bytes from which on messages are read by the peer, not sent
  std::uint32_t poll_us = 1000;    // between looks of a sleeper, where a provider wakes nobody
  // Several rails: how long one may be silent while another one answers, until it is given up.
  std::uint32_t silent_ms = 500;
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
