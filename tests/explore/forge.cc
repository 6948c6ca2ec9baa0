#include "tests/explore/forge.h"

#include <array>

#include "transport/base/crc32c.h"
#include "transport/wire/request_codec.h"

namespace spindrift::test {
namespace {

constexpr std::size_t kCrcTrailer = 4;

template <class T>
void append_header(Bytes& to, const T& header) {
  std::array<std::byte, 128> buffer{};
  const std::size_t bytes = wire::encode(header, buffer);
  to.insert(to.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
}

}  // namespace

Bytes forge_hello(wire::RudRequest pds, const wire::Hello& hello) {
  pds.next = wire::NextHeader::kRequestStandard;
  Bytes body(wire::kMaxHelloBytes);
  body.resize(wire::encode(hello, body));
  wire::StandardRequest ses;
  ses.opcode = wire::Opcode::kSend;
  ses.is_som = true;
  ses.is_eom = true;
  ses.resource_index = wire::kHelloResourceIndex;
  ses.request_length = static_cast<std::uint32_t>(body.size());
  Bytes packet;
  append_header(packet, pds);
  append_header(packet, ses);
  packet.insert(packet.end(), body.begin(), body.end());
  append_crc(packet);
  return packet;
}

Bytes forge_ack(const wire::Ack& ack, const wire::Response& response) {
  Bytes packet;
  append_header(packet, ack);
  if (ack.next == wire::NextHeader::kResponse) append_header(packet, response);
  return packet;
}

Bytes forge_nack(const wire::Nack& nack) {
  Bytes packet;
  append_header(packet, nack);
  return packet;
}

Bytes forge_control(const wire::Control& control) {
  Bytes packet;
  append_header(packet, control);
  return packet;
}

Bytes forge_response_data(const wire::RudRequest& pds, const wire::ResponseData& ses,
                          std::span<const std::byte> payload) {
  Bytes packet;
  append_header(packet, pds);
  append_header(packet, ses);
  packet.insert(packet.end(), payload.begin(), payload.end());
  return packet;
}

void append_crc(Bytes& packet, std::uint32_t seed) {
  packet.resize(packet.size() + kCrcTrailer);
  set_crc(packet, seed);
}

void set_crc(Bytes& packet, std::uint32_t seed) {
  if (packet.size() < kCrcTrailer) return;
  const std::size_t body = packet.size() - kCrcTrailer;
  const std::uint32_t crc = crc32c(std::span<const std::byte>(packet).first(body), seed);
  for (std::size_t i = 0; i < kCrcTrailer; ++i)
    packet[body + i] = static_cast<std::byte>((crc >> (8 * i)) & 0xff);
}

std::optional<ParsedHello> parse_hello(std::span<const std::byte> packet) {
  wire::Pds pds;
  if (wire::parse_pds(packet, pds) != wire::ParseError::kOk) return std::nullopt;
  const auto* request = std::get_if<wire::RudRequest>(&pds.header);
  if (request == nullptr) return std::nullopt;
  wire::StandardRequest ses;
  std::size_t bytes = 0;
  const auto rest = packet.subspan(pds.bytes);
  if (wire::parse(rest, ses, bytes) != wire::ParseError::kOk ||
      ses.resource_index != wire::kHelloResourceIndex)
    return std::nullopt;
  ParsedHello out{.pds = *request};
  if (wire::parse(rest.subspan(bytes), out.hello) != wire::ParseError::kOk) return std::nullopt;
  return out;
}

}  // namespace spindrift::test
