// What endpoints promise over media that lose nothing, over libfabric's net.
#include "tests/contract/endpoint_contract.h"
#include "tests/providers/libfabric/ofi_endpoint_world.h"

namespace spindrift {

INSTANTIATE_TEST_SUITE_P(Net, ReliableEndpointContract, testing::Values(ofi_world("net")),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });
// Of packets that can be lost.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EndpointContract);

}  // namespace spindrift
