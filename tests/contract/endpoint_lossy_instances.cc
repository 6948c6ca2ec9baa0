// The worlds in which packets can be lost, and those in which nothing can.
#include "tests/contract/endpoint_contract.h"

namespace spindrift {

INSTANTIATE_TEST_SUITE_P(Worlds, EndpointContract, testing::ValuesIn(lossy_worlds()),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });
INSTANTIATE_TEST_SUITE_P(Worlds, ReliableEndpointContract, testing::ValuesIn(reliable_worlds()),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });

}  // namespace spindrift
