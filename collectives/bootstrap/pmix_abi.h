#pragma once
// The few structs and constants of the PMIx 2..5 C interface (pmix_common.h of the standard) that
// this library uses, so that building it needs no PMIx.
#include <cstddef>
#include <cstdint>

namespace spindrift::collectives::pmix {

inline constexpr std::size_t kMaxNamespaceBytes = 256;  // with the terminating zero
inline constexpr std::size_t kMaxKeyBytes = 512;
inline constexpr std::uint32_t kWholeJob = UINT32_MAX - 1;  // PMIX_RANK_WILDCARD
inline constexpr int kSuccess = 0;
inline constexpr std::uint8_t kGlobalScope = 3;

inline constexpr std::uint16_t kTypeString = 3;
inline constexpr std::uint16_t kTypeInt = 6;
inline constexpr std::uint16_t kTypeUint16 = 13;
inline constexpr std::uint16_t kTypeUint32 = 14;

inline constexpr const char* kJobSize = "pmix.job.size";      // uint32
inline constexpr const char* kLocalRank = "pmix.lrank";       // uint16
inline constexpr const char* kLocalSize = "pmix.local.size";  // uint32
inline constexpr const char* kTimeout = "pmix.timeout";       // int, seconds

struct Process {
  char name_space[kMaxNamespaceBytes];
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    char* string;
    int integer;
    std::uint16_t uint16;
    std::uint32_t uint32;
    std::uint64_t words[3];  // the largest member of the original has 24 bytes
  } data;
};
struct Info {
  char key[kMaxKeyBytes];
  std::uint32_t flags;
  Value value;
};
static_assert(sizeof(Process) == 260);
static_assert(sizeof(Value) == 32);
static_assert(sizeof(Info) == 552);

using Init = int (*)(Process* self, Info* info, std::size_t count);
using Finalize = int (*)(const Info* info, std::size_t count);
using Put = int (*)(std::uint8_t scope, const char* key, Value* value);
using Commit = int (*)();
using Get = int (*)(const Process* process, const char* key, const Info* info, std::size_t count,
                    Value** value);
using ErrorText = const char* (*)(int status);

}  // namespace spindrift::collectives::pmix
