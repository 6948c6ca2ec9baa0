// A tuner that does one thing: where 128-byte lines may not rely on the network, LL128 is no
// choice. All else, and the user's NCCL_PROTO, stays as it is.
#include "plugins/nccl/calls.h"
#include "plugins/nccl/tuner_abi.h"

namespace spindrift::nccl {
namespace {

constexpr const char* kName = "Spindrift";

// Whether LL128 is taken away: the context is all there is to remember.
void* to_context(std::size_t nodes) {
  const bool is_affected = nodes > 1 && !calls::keeps_ll128();
  return reinterpret_cast<void*>(std::uintptr_t{is_affected ? 1U : 0U});
}

// NOLINTBEGIN(readability-function-size): the parameters are NCCL's
NcclResult init(std::size_t /*ranks*/, std::size_t nodes, Logger /*logger*/, void** context) {
  *context = to_context(nodes);
  return kSuccess;
}

NcclResult init_v5(void** context, std::uint64_t /*comm*/, std::size_t /*ranks*/, std::size_t nodes,
                   Logger /*logger*/, void* /*domains*/, void* /*constants*/) {
  *context = to_context(nodes);
  return kSuccess;
}

void judge(void* context, float** costs, int algorithms, int protocols) {
  if (context == nullptr || protocols <= kProtocolLl128) return;
  auto* const table = reinterpret_cast<float*>(costs);
  for (int i = 0; i < algorithms; ++i)
    table[i * protocols + kProtocolLl128] = kNotAvailable;
}

NcclResult get_costs_v3(void* context, int /*collective*/, std::size_t /*bytes*/, int /*pipelined*/,
                        float** costs, int algorithms, int protocols, int* /*channels*/) {
  judge(context, costs, algorithms, protocols);
  return kSuccess;
}

NcclResult get_costs_v4(void* context, int /*collective*/, std::size_t /*bytes*/, int /*pipelined*/,
                        float** costs, int algorithms, int protocols, int /*registered*/,
                        int* /*channels*/) {
  judge(context, costs, algorithms, protocols);
  return kSuccess;
}

// NOLINTEND(readability-function-size)
NcclResult finish(void* /*context*/) {
  return kSuccess;
}

}  // namespace
}  // namespace spindrift::nccl

// The names are NCCL's.
#define SPINDRIFT_NCCL_EXPORT extern "C" __attribute__((visibility("default"))) const

using namespace spindrift::nccl;  // NOLINT(google-build-using-namespace): tables of its functions

SPINDRIFT_NCCL_EXPORT TunerV3 ncclTunerPlugin_v3 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init,
    .getCollInfo = get_costs_v3,
    .destroy = finish};
SPINDRIFT_NCCL_EXPORT TunerV4 ncclTunerPlugin_v4 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init,
    .getCollInfo = get_costs_v4,
    .destroy = finish};
SPINDRIFT_NCCL_EXPORT TunerV5 ncclTunerPlugin_v5 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init_v5,
    .getCollInfo = get_costs_v4,
    .finalize = finish};
