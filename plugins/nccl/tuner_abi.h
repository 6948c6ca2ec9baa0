#pragma once
// The binary interface of NCCL's tuner plugins, versions 3 to 5, as far as it is used: written from
// its published layout. A table of costs is [algorithms][protocols] floats in us; -1: not
// available.
#include <cstddef>
#include <cstdint>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {

inline constexpr int kProtocolLl128 = 1;
inline constexpr float kNotAvailable = -1;

struct TunerV3 {
  const char* name;
  NcclResult (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  NcclResult (*getCollInfo)(void* context, int collective, std::size_t bytes, int pipelined,
                            float** costs, int algorithms, int protocols, int* channels);
  NcclResult (*destroy)(void* context);
};

struct TunerV4 {
  const char* name;
  NcclResult (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  NcclResult (*getCollInfo)(void* context, int collective, std::size_t bytes, int pipelined,
                            float** costs, int algorithms, int protocols, int registered,
                            int* channels);
  NcclResult (*destroy)(void* context);
};

struct TunerV5 {
  const char* name;
  NcclResult (*init)(void** context, std::uint64_t commId, std::size_t ranks, std::size_t nodes,
                     Logger logger, void* domains, void* constants);
  NcclResult (*getCollInfo)(void* context, int collective, std::size_t bytes, int pipelined,
                            float** costs, int algorithms, int protocols, int registered,
                            int* channels);
  NcclResult (*finalize)(void* context);
};
static_assert(sizeof(TunerV3) == 4 * sizeof(void*) && sizeof(TunerV4) == 4 * sizeof(void*) &&
              sizeof(TunerV5) == 4 * sizeof(void*));

}  // namespace spindrift::nccl
