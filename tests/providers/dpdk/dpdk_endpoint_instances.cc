// The endpoint contract suite over DPDK.
#include "tests/contract/endpoint_contract.h"
#include "tests/providers/dpdk/dpdk_endpoint_world.h"

namespace spindrift {

INSTANTIATE_TEST_SUITE_P(Worlds, EndpointContract, testing::Values(dpdk_world()),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });
// Of media that lose nothing.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReliableEndpointContract);

}  // namespace spindrift
