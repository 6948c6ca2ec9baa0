// Every parser against truncated, flipped and random bytes. The bytes lie in a heap block of
// exactly their size, so that the address sanitizer sees a read past the end.
#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "tests/wire/generate.h"
#include "tests/wire/hex.h"

namespace spindrift::wire {
namespace {

class ExactCopy {
 public:
  explicit ExactCopy(std::span<const std::byte> bytes)
      : block_(std::make_unique<std::byte[]>(bytes.size())), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), block_.get());
  }
  std::span<const std::byte> bytes() const { return {block_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> block_;
  std::size_t size_;
};

ParseError parse_as_pds(std::span<const std::byte> bytes) {
  Pds out;
  const ParseError error = parse_pds(bytes, out);
  if (error == ParseError::kOk) {
    EXPECT_LE(out.bytes, bytes.size());
  }
  return error;
}

template <class Header>
ParseError parse_as(std::span<const std::byte> bytes) {
  Header out;
  std::size_t length = 0;
  const ParseError error = parse(bytes, out, length);
  if (error == ParseError::kOk) {
    EXPECT_LE(length, bytes.size());
  }
  return error;
}

ParseError parse_as_hello(std::span<const std::byte> bytes) {
  Hello out;
  const ParseError error = parse(bytes, out);
  if (error == ParseError::kOk) {
    EXPECT_LE(out.rail_count, kMaxHelloRails);
    EXPECT_LE(out.private_bytes, kMaxPrivateBytes);
    EXPECT_LE(out.reason_bytes, kMaxReasonBytes);
  }
  return error;
}

using Parser = ParseError (*)(std::span<const std::byte>);
struct Case {
  const char* name;
  Parser parser;
  std::vector<std::byte> (*sample)(Generator& generate);
};

const Case kCases[] = {
    {"RUD_REQ", &parse_as_pds, [](Generator& g) { return encoded(g.rud_request()); }},
    {"ACK", &parse_as_pds, [](Generator& g) { return encoded(g.ack()); }},
    {"NACK", &parse_as_pds, [](Generator& g) { return encoded(g.nack()); }},
    {"CP", &parse_as_pds, [](Generator& g) { return encoded(g.control()); }},
    {"REQ_STD", &parse_as<StandardRequest>,
     [](Generator& g) { return encoded(g.standard_request()); }},
    {"REQ_SMALL", &parse_as<SmallRequest>, [](Generator& g) { return encoded(g.small_request()); }},
    {"atomic", &parse_as<AtomicExtension>,
     [](Generator& g) { return encoded(g.atomic_extension()); }},
    {"RSP", &parse_as<Response>, [](Generator& g) { return encoded(g.response()); }},
    {"RSP_DATA", &parse_as<ResponseData>, [](Generator& g) { return encoded(g.response_data()); }},
    {"RSP_DATA_SMALL", &parse_as<ResponseDataSmall>,
     [](Generator& g) { return encoded(g.response_data_small()); }},
    {"HELLO", &parse_as_hello, [](Generator& g) { return encoded(g.hello()); }},
};

TEST(Malformed, EveryTruncationIsRefused) {
  Generator generate(4);
  for (const Case& one : kCases) {
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::byte> whole = one.sample(generate);
      ASSERT_EQ(one.parser(ExactCopy(whole).bytes()), ParseError::kOk) << one.name;
      for (std::size_t length = 0; length < whole.size(); ++length) {
        const ExactCopy part({whole.data(), length});
        ASSERT_NE(one.parser(part.bytes()), ParseError::kOk) << one.name << " at " << length;
      }
    }
  }
}

TEST(Malformed, TruncatedFixedHeadersAreTooShort) {
  Generator generate(5);
  for (const Case& one : kCases) {
    if (one.parser == &parse_as_hello) continue;
    const std::vector<std::byte> whole = one.sample(generate);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const ExactCopy part({whole.data(), length});
      ASSERT_EQ(one.parser(part.bytes()), ParseError::kTooShort) << one.name << " at " << length;
    }
  }
}

TEST(Malformed, FlippedBytesStayInsideThePacket) {
  Generator generate(6);
  for (const Case& one : kCases) {
    int refused = 0;
    for (int round = 0; round < 10000; ++round) {
      std::vector<std::byte> bytes = one.sample(generate);
      for (std::uint64_t flips = 1 + generate.rng().below(3); flips > 0; --flips) {
        bytes[generate.rng().below(bytes.size())] = generate.byte();
      }
      if (one.parser(ExactCopy(bytes).bytes()) != ParseError::kOk) ++refused;
    }
    RecordProperty(one.name, refused);
    EXPECT_LT(refused, 10000) << one.name;
  }
}

TEST(Malformed, RandomBytesStayInsideThePacket) {
  Generator generate(7);
  for (const Case& one : kCases) {
    for (int round = 0; round < 100000; ++round) {
      std::vector<std::byte> bytes(generate.rng().below(80));
      for (std::byte& byte : bytes)
        byte = generate.byte();
      const ExactCopy copy(bytes);
      const ParseError error = one.parser(copy.bytes());
      ASSERT_FALSE(to_string(error).starts_with("unknown parse error"));
    }
  }
}

TEST(Malformed, RandomFieldsOfAHelloStayInsideThePacket) {
  Generator generate(8);
  for (int round = 0; round < 100000; ++round) {
    std::vector<std::byte> bytes = from_hex("53504401");
    for (std::uint64_t fields = generate.rng().below(6); fields > 0; --fields) {
      const std::uint64_t length = generate.rng().below(generate.rng().chance(0.1) ? 400 : 10);
      bytes.push_back(std::byte{0});
      bytes.push_back(static_cast<std::byte>(generate.rng().below(24)));
      bytes.push_back(static_cast<std::byte>(length >> 8));
      bytes.push_back(static_cast<std::byte>(length & 0xff));
      for (std::uint64_t i = 0; i < length; ++i)
        bytes.push_back(generate.byte());
    }
    ASSERT_NE(parse_as_hello(ExactCopy(bytes).bytes()), ParseError::kOk) << "no HELLO is so short";
  }
}

}  // namespace
}  // namespace spindrift::wire
