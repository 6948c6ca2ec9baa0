// Every parser of the wire over arbitrary bytes. The first byte chooses the parser. What is
// accepted must survive being written and read again.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "transport/base/check.h"
#include "transport/wire/hello.h"
#include "transport/wire/pds.h"
#include "transport/wire/request_codec.h"
#include "transport/wire/ses.h"

namespace spindrift::wire {
namespace {

using Bytes = std::span<const std::byte>;

void check_pds(Bytes in) {
  Pds first;
  if (parse_pds(in, first) != ParseError::kOk) return;
  SPINDRIFT_CHECK(first.bytes <= in.size());
  std::array<std::byte, 64> buffer{};
  const std::size_t length =
      std::visit([&buffer](const auto& header) { return encode(header, buffer); }, first.header);
  Pds second;
  SPINDRIFT_CHECK(parse_pds(std::span(buffer).first(length), second) == ParseError::kOk);
  SPINDRIFT_CHECK(second.header == first.header);
}

template <class Header>
void check_ses(Bytes in) {
  Header first;
  std::size_t bytes = 0;
  if (parse(in, first, bytes) != ParseError::kOk) return;
  SPINDRIFT_CHECK(bytes <= in.size());
  std::array<std::byte, 128> buffer{};
  const std::size_t length = encode(first, buffer);
  Header second;
  SPINDRIFT_CHECK(parse(std::span(buffer).first(length), second, bytes) == ParseError::kOk);
  SPINDRIFT_CHECK(bytes == length);
  SPINDRIFT_CHECK(second == first);
}

void check_hello(Bytes in) {
  Hello first;
  if (parse(in, first) != ParseError::kOk) return;
  std::array<std::byte, kMaxHelloBytes> buffer{};
  const std::size_t length = encode(first, buffer);
  Hello second;
  SPINDRIFT_CHECK(parse(std::span(buffer).first(length), second) == ParseError::kOk);
  SPINDRIFT_CHECK(second == first);
}

constexpr std::array<void (*)(Bytes), 8> kChecks{
    &check_pds,           &check_ses<StandardRequest>,  &check_ses<SmallRequest>,
    &check_ses<Response>, &check_ses<AtomicExtension>,  &check_ses<ResponseData>,
    &check_hello,         &check_ses<ResponseDataSmall>};

}  // namespace
}  // namespace spindrift::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  const auto input = std::as_bytes(std::span(data, bytes));
  spindrift::wire::kChecks[data[0] % spindrift::wire::kChecks.size()](input.subspan(1));
  return 0;
}
