#pragma once
// A PacketIo that harms what is sent through the PacketIo it owns: loss, duplication, reordering,
// corruption, delay, black holes. On the sending side only: wrap both ends to harm both directions.
// The same seed and the same packets give the same harm.
#include <memory>

#include "spindrift/provider.h"

#include "providers/wrap/fault_spec.h"

namespace spindrift {

class FaultIo : public PacketIo {
 public:
  // From now on; black holes count their start from here. Packets already held keep their fate.
  virtual void set_faults(const FaultConfig& config) = 0;
};

std::unique_ptr<FaultIo> wrap_with_faults(std::unique_ptr<PacketIo> inner,
                                          const FaultConfig& config);

}  // namespace spindrift
