// The contract suite of fabrics over two soft-RoCE devices, whose sides find each other by TCP
// (tcp_talk) or by rdma_cm (rdma_talk).
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/contract/fabric_world.h"
#include "tests/providers/verbs/verbs_pair.h"

namespace spindrift {
namespace {

struct VerbsPair final : public FabricPair {
  explicit VerbsPair(const VerbsOptions& options) {
    a = open_verbs_device("rxe0", options);
    b = open_verbs_device("rxe1", options);
  }
  // The kernel's threads carry the packets.
  void pass_time() override { ::usleep(100); }
  void rest() override { ::usleep(50000); }
};

}  // namespace

std::vector<FabricWorld> fabric_worlds() {
  const auto over = [](const VerbsOptions& options) {
    return
        [options]() -> std::unique_ptr<FabricPair> { return std::make_unique<VerbsPair>(options); };
  };
  VerbsOptions small;
  small.buffers = 16;
  small.lanes = 1;
  small.mtu = 1024;
  VerbsOptions by_rdma_cm;
  by_rdma_cm.meeting = VerbsMeeting::kRdmaCm;
  return {{"verbs_rc", over({})},
          {"verbs_rc_small", over(small)},
          {"verbs_rc_by_rdma_cm", over(by_rdma_cm)}};
}

}  // namespace spindrift
