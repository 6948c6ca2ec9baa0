// The endpoint contract suite over libfabric's net.
#include "tests/contract/endpoint_contract.h"
#include "tests/providers/libfabric/ofi_endpoint_world.h"

namespace spindrift {

INSTANTIATE_TEST_SUITE_P(Net, EndpointContract, testing::Values(ofi_world("net")),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });

}  // namespace spindrift
