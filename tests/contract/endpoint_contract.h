#pragma once
// The fixture of the endpoint contract suite: every test runs over every world.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/endpoint_world.h"

namespace spindrift {

class EndpointContract : public testing::TestWithParam<WorldFactory> {
 protected:
  std::unique_ptr<EndpointWorld> world = GetParam().make();
};

// ... over worlds that lose nothing, whatever happens.
class ReliableEndpointContract : public EndpointContract {};

#define ASSERT_OPENS(pair) \
  ASSERT_TRUE((pair).open()) << (pair).a->last_error((pair).ab) << (pair).b->last_error((pair).ba)

}  // namespace spindrift
