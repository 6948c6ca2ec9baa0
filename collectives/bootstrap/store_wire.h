#pragma once
// Bytes of the store's protocol, big-endian.
//
//   request:  magic u32 | operation u8 | zero u8 | key length u16 | value length u32 | number i64
//             | key | value
//   reply:    status u8 | zero u8 x3 | value length u32 | number i64 | value
//
// `number` is the amount of an add and the sum in its reply. A get is answered when the key is
// there; a client that no longer waits closes its connection.
#include <cstddef>
#include <cstdint>

namespace spindrift::collectives {

inline constexpr std::uint32_t kStoreMagic = 0x53505354;  // "SPST"
inline constexpr std::size_t kStoreRequestBytes = 20;
inline constexpr std::size_t kStoreReplyBytes = 16;

enum class StoreOperation : std::uint8_t { kSet = 1, kGet = 2, kAdd = 3 };
enum class StoreStatus : std::uint8_t {
  kOk = 0,
  kFull = 1,        // the server's bound on entries or bytes
  kNotANumber = 2,  // add on a key that was set to something else
};

}  // namespace spindrift::collectives
