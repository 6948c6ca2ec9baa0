#pragma once
// Packets built by hand, as a peer that need not be honest builds them.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/wire/hello.h"
#include "transport/wire/ses.h"

namespace spindrift::test {

using Bytes = std::vector<std::byte>;

// With the CRC of packets that belong to the opening.
Bytes forge_hello(wire::RudRequest pds, const wire::Hello& hello);
// Without CRC: for connections that agreed on none, or for set_crc().
Bytes forge_ack(const wire::Ack& ack, const wire::Response& response);
Bytes forge_nack(const wire::Nack& nack);
Bytes forge_control(const wire::Control& control);
Bytes forge_response_data(const wire::RudRequest& pds, const wire::ResponseData& ses,
                          std::span<const std::byte> payload);

void append_crc(Bytes& packet, std::uint32_t seed = 0);
// Makes the last four bytes right again after a change before them.
void set_crc(Bytes& packet, std::uint32_t seed = 0);

struct ParsedHello {
  wire::RudRequest pds{};
  wire::Hello hello{};
};
std::optional<ParsedHello> parse_hello(std::span<const std::byte> packet);

}  // namespace spindrift::test
