#include "transport/wire/hello.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "spindrift/types.h"

#include "transport/base/bytes.h"
#include "transport/base/check.h"

namespace spindrift::wire {

namespace {

constexpr std::array<std::uint8_t, 3> kMagic{'S', 'P', 'D'};
constexpr std::uint8_t kFormat = 1;
constexpr std::uint16_t kEndType = 0;
constexpr std::size_t kFieldHeaderBytes = 4;
constexpr std::size_t kRailBytes = 24;

// One row of the table: how a field lies in a HELLO. A field of length 0 is left out.
struct Field {
  std::uint16_t type = 0;
  std::size_t min_bytes = 0;
  std::size_t max_bytes = 0;
  std::size_t (*bytes)(const Hello& hello) = nullptr;
  void (*write)(const Hello& hello, ByteWriter& out) = nullptr;
  // `in` holds exactly the field's bytes, between min_bytes and max_bytes.
  ParseError (*read)(ByteReader& in, Hello& hello) = nullptr;
};

// Integers, enumerations and booleans (one byte, 0 or 1), big endian.
template <class T>
struct Scalar {
  static constexpr std::size_t kBytes = sizeof(T);
  static_assert(std::is_integral_v<T> || std::is_enum_v<T>);

  static void write(T value, ByteWriter& out) {
    if constexpr (kBytes == 1) {
      out.u8(static_cast<std::uint8_t>(value));
    } else if constexpr (kBytes == 2) {
      out.u16(value);
    } else if constexpr (kBytes == 4) {
      out.u32(value);
    } else {
      out.u64(value);
    }
  }
  static ParseError read(ByteReader& in, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::uint8_t byte = in.u8();
      value = byte == 1;
      return byte <= 1 ? ParseError::kOk : ParseError::kBadField;
    } else if constexpr (kBytes == 1) {
      value = static_cast<T>(in.u8());
    } else if constexpr (kBytes == 2) {
      value = in.u16();
    } else if constexpr (kBytes == 4) {
      value = in.u32();
    } else {
      value = in.u64();
    }
    return ParseError::kOk;
  }
};

template <auto member>
constexpr Field scalar(std::uint16_t type) {
  using T = std::remove_reference_t<decltype(std::declval<Hello&>().*member)>;
  return Field{
      .type = type,
      .min_bytes = Scalar<T>::kBytes,
      .max_bytes = Scalar<T>::kBytes,
      .bytes = [](const Hello&) { return Scalar<T>::kBytes; },
      .write = [](const Hello& hello, ByteWriter& out) { Scalar<T>::write(hello.*member, out); },
      .read = [](ByteReader& in, Hello& hello) { return Scalar<T>::read(in, hello.*member); },
  };
}

void write_rails(const Hello& hello, ByteWriter& out) {
  for (const NetAddress& rail : std::span(hello.rails).first(hello.rail_count)) {
    out.u8(rail.family);
    out.u8(0);
    out.u16(rail.port);
    out.put(std::as_bytes(std::span(rail.ip)));
    out.u32(rail.scope);
  }
}

bool is_rail(const NetAddress& address) {
  if (address.port == 0 || address.is_wildcard()) return false;
  if (address.family == 6) return true;
  const bool is_padded_with_zeros =
      std::all_of(address.ip.begin() + 4, address.ip.end(), [](auto byte) { return byte == 0; });
  return address.family == 4 && address.scope == 0 && is_padded_with_zeros;
}

ParseError read_rails(ByteReader& in, Hello& hello) {
  if (in.rest().size() % kRailBytes != 0) return ParseError::kBadLength;
  const std::size_t count = in.rest().size() / kRailBytes;
  for (NetAddress& rail : std::span(hello.rails).first(count)) {
    rail.family = in.u8();
    in.u8();
    rail.port = in.u16();
    const auto ip = in.take(rail.ip.size());
    std::memcpy(rail.ip.data(), ip.data(), rail.ip.size());
    rail.scope = in.u32();
    if (!is_rail(rail)) return ParseError::kBadField;
  }
  hello.rail_count = static_cast<std::uint8_t>(count);
  return ParseError::kOk;
}

// Bytes of variable length, kept in an array with a count beside it.
template <auto array, auto count>
constexpr Field text(std::uint16_t type, std::size_t max_bytes) {
  return Field{
      .type = type,
      .min_bytes = 0,
      .max_bytes = max_bytes,
      .bytes = [](const Hello& hello) { return std::size_t{hello.*count}; },
      .write =
          [](const Hello& hello, ByteWriter& out) {
            out.put(std::as_bytes(std::span(hello.*array)).first(hello.*count));
          },
      .read =
          [](ByteReader& in, Hello& hello) {
            const auto bytes = in.take(in.rest().size());
            std::copy(bytes.begin(), bytes.end(),
                      std::as_writable_bytes(std::span(hello.*array)).begin());
            hello.*count = static_cast<std::uint16_t>(bytes.size());
            return ParseError::kOk;
          },
  };
}

constexpr Field only_when(Field field, std::size_t (*bytes)(const Hello&)) {
  field.bytes = bytes;
  return field;
}

std::size_t peer_nonce_bytes(const Hello& hello) {
  return hello.kind == HelloKind::kConnect ? 0 : sizeof(hello.peer_nonce);
}
std::size_t peer_start_psn_bytes(const Hello& hello) {
  return hello.kind == HelloKind::kAccept ? sizeof(hello.peer_start_psn) : 0;
}
std::size_t refuse_code_bytes(const Hello& hello) {
  return hello.kind == HelloKind::kRefuse ? sizeof(hello.refuse_code) : 0;
}
std::size_t reason_bytes(const Hello& hello) {
  return hello.kind == HelloKind::kRefuse ? hello.reason_bytes : 0;
}
std::size_t rails_bytes(const Hello& hello) {
  return hello.rail_count * kRailBytes;
}

constexpr std::array kFields{
    scalar<&Hello::kind>(1),
    scalar<&Hello::version_min>(2),
    scalar<&Hello::version_max>(3),
    scalar<&Hello::nonce>(4),
    only_when(scalar<&Hello::peer_nonce>(5), &peer_nonce_bytes),
    scalar<&Hello::partition_key>(6),
    scalar<&Hello::payload_mtu>(7),
    scalar<&Hello::path_count>(8),
    scalar<&Hello::cc_family>(9),
    scalar<&Hello::crc>(10),
    scalar<&Hello::host_id>(11),
    scalar<&Hello::receive_buffer_bytes>(12),
    scalar<&Hello::receive_credits>(13),
    scalar<&Hello::window_packets>(14),
    scalar<&Hello::max_reads>(15),
    scalar<&Hello::link_rate_bps>(16),
    scalar<&Hello::progresses_alone>(17),
    Field{.type = 18,
          .min_bytes = 0,
          .max_bytes = kMaxHelloRails * kRailBytes,
          .bytes = &rails_bytes,
          .write = &write_rails,
          .read = &read_rails},
    text<&Hello::private_data, &Hello::private_bytes>(19, kMaxPrivateBytes),
    only_when(scalar<&Hello::refuse_code>(20), &refuse_code_bytes),
    only_when(text<&Hello::reason, &Hello::reason_bytes>(21, kMaxReasonBytes), &reason_bytes),
    only_when(scalar<&Hello::peer_start_psn>(22), &peer_start_psn_bytes),
};

constexpr bool types_are_positions() {
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (kFields[i].type != i + 1) return false;
  }
  return true;
}
static_assert(types_are_positions(), "the parser finds a field's row by its type");

constexpr std::size_t largest_bytes() {
  std::size_t bytes = kMagic.size() + sizeof(kFormat) + kFieldHeaderBytes;
  for (const Field& field : kFields)
    bytes += kFieldHeaderBytes + field.max_bytes;
  return bytes;
}
static_assert(largest_bytes() <= kMaxHelloBytes);

// Which types came, one bit each.
using SeenTypes = std::uint32_t;
static_assert(kFields.size() < 32);
constexpr SeenTypes bit_of(std::uint16_t type) {
  return SeenTypes{1} << type;
}

ParseError parse_field(std::uint16_t type, std::span<const std::byte> value, Hello& out) {
  const Field& field = kFields[type - 1U];
  if (value.size() < field.min_bytes || value.size() > field.max_bytes) {
    return ParseError::kBadLength;
  }
  ByteReader reader(value);
  return field.read(reader, out);
}

ParseError parse_fields(ByteReader& in, Hello& out, SeenTypes& seen) {
  while (true) {
    const std::uint16_t type = in.u16();
    const std::uint16_t length = in.u16();
    if (in.has_failed()) return ParseError::kTooShort;
    const auto value = in.take(length);
    if (in.has_failed()) return ParseError::kBadLength;
    if (type == kEndType) return length == 0 ? ParseError::kOk : ParseError::kBadLength;
    if (type > kFields.size()) continue;
    if ((seen & bit_of(type)) != 0) return ParseError::kBadLength;
    seen |= bit_of(type);
    const ParseError error = parse_field(type, value, out);
    if (error != ParseError::kOk) return error;
  }
}

bool has_required(const Hello& hello, SeenTypes seen) {
  SeenTypes required = 0;
  for (std::uint16_t type = 1; type <= std::uint16_t{kFields.size()}; ++type) {
    // Scalars that this kind of HELLO always carries.
    const Field& field = kFields[type - 1U];
    if (field.min_bytes > 0 && field.bytes(hello) > 0) required |= bit_of(type);
  }
  return (seen & required) == required;
}

constexpr bool is_payload_mtu(std::uint32_t bytes) {
  return bytes >= kMinPayloadMtu && bytes <= kMaxPayloadMtu && bytes % kPayloadMtuStep == 0;
}

constexpr bool is_window(std::uint32_t packets) {
  constexpr std::uint32_t kUnit = 128;  // of the mpr field, which has 8 bits
  return packets >= kUnit && packets <= 255 * kUnit && packets % kUnit == 0;
}

// What a connection is built from; a refusal carries it too, but nobody uses it there.
bool is_usable(const Hello& hello) {
  const std::uint8_t least_crc = hello.kind == HelloKind::kAccept ? 1 : 0;
  return is_payload_mtu(hello.payload_mtu) && is_window(hello.window_packets) &&
         hello.path_count >= 1 && hello.path_count <= kMaxPaths && hello.max_reads <= kMaxReads &&
         hello.cc_family <= CcFamily::kCredit && hello.crc >= least_crc && hello.crc <= 2;
}

ParseError check(Hello& hello, SeenTypes seen) {
  const bool is_known_kind = hello.kind >= HelloKind::kConnect && hello.kind <= HelloKind::kRefuse;
  if ((seen & bit_of(1)) == 0 || !is_known_kind) return ParseError::kBadField;
  if (!has_required(hello, seen)) return ParseError::kBadField;
  if (hello.version_min == 0 || hello.version_min > hello.version_max) {
    return ParseError::kBadVersion;
  }
  if (hello.kind == HelloKind::kConnect && hello.peer_nonce != 0) return ParseError::kBadField;
  if (hello.kind != HelloKind::kRefuse) {
    return is_usable(hello) ? ParseError::kOk : ParseError::kBadField;
  }
  // A later version may know more reasons; the sentence that comes with them explains.
  if (hello.refuse_code > RefuseCode::kPayloadMtu) hello.refuse_code = RefuseCode::kOther;
  return ParseError::kOk;
}

}  // namespace

void Hello::set_reason(std::string_view text_utf8) {
  std::size_t length = std::min(text_utf8.size(), kMaxReasonBytes);
  // Cut before a character, never inside one: 10xxxxxx continues a character.
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text_utf8[at]) & 0xc0) == 0x80;
  };
  if (length < text_utf8.size()) {
    while (length > 0 && continues(length))
      --length;
  }
  reason = {};
  std::copy_n(text_utf8.begin(), length, reason.begin());
  reason_bytes = static_cast<std::uint16_t>(length);
}

std::size_t encode(const Hello& hello, std::span<std::byte> out) {
  SPINDRIFT_CHECK(hello.rail_count <= kMaxHelloRails);
  SPINDRIFT_CHECK(hello.private_bytes <= kMaxPrivateBytes);
  SPINDRIFT_CHECK(hello.reason_bytes <= kMaxReasonBytes);
  ByteWriter writer(out);
  writer.put(std::as_bytes(std::span(kMagic)));
  writer.u8(kFormat);
  for (const Field& field : kFields) {
    const std::size_t length = field.bytes(hello);
    if (length == 0) continue;
    writer.u16(field.type);
    writer.u16(static_cast<std::uint16_t>(length));
    field.write(hello, writer);
  }
  writer.u16(kEndType);
  writer.u16(0);
  SPINDRIFT_CHECK(!writer.has_failed());
  return writer.written();
}

ParseError parse(std::span<const std::byte> in, Hello& out) {
  ByteReader reader(in);
  const auto magic = reader.take(kMagic.size());
  const std::uint8_t format = reader.u8();
  if (reader.has_failed()) return ParseError::kTooShort;
  const auto expected = std::as_bytes(std::span(kMagic));
  if (!std::equal(magic.begin(), magic.end(), expected.begin())) return ParseError::kBadField;
  if (format != kFormat) return ParseError::kBadVersion;
  out = Hello{};
  SeenTypes seen = 0;
  const ParseError error = parse_fields(reader, out, seen);
  return error == ParseError::kOk ? check(out, seen) : error;
}

}  // namespace spindrift::wire
