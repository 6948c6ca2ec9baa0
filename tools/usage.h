#pragma once
// Addresses and faults as typed, judged before anything is opened: a typing error is one sentence
// and the exit code of wrong arguments.
#include <cstdint>
#include <string_view>

#include "spindrift/config.h"
#include "spindrift/registry.h"
#include "spindrift/result.h"

namespace spindrift::tools {

enum class AddressUse : std::uint8_t { kListen, kTarget };

// ok, or why `url` ("udp://10.0.0.1:4793") cannot be used like that.
[[nodiscard]] Status check_url(std::string_view url, AddressUse use, const Registry& registry);

struct FaultChoice {
  bool has_corruption = false;
  CrcChoice crc = CrcChoice::kAuto;
};
// How connections check packets under these faults. Corrupted bits must be caught, not delivered:
// with corruption CRC is on, and asking for it off is an error.
Result<FaultChoice> check_faults(std::string_view faults, CrcChoice asked);

}  // namespace spindrift::tools
