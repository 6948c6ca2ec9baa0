// The worlds that the endpoint contract suite runs over.
#include "tests/contract/endpoint_contract.h"

namespace spindrift {

INSTANTIATE_TEST_SUITE_P(Worlds, EndpointContract, testing::ValuesIn(all_worlds()),
                         [](const testing::TestParamInfo<WorldFactory>& named) {
                           return named.param.name;
                         });

}  // namespace spindrift
