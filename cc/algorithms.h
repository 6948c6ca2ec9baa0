#pragma once
// The congestion control algorithms that ship, for the composition root to list. One file each.
#include "spindrift/congestion_control.h"

namespace spindrift {

extern const CcInfo kFixedWindow;
extern const CcInfo kDcqcn;
extern const CcInfo kDctcp;
extern const CcInfo kHpcc;
extern const CcInfo kNscc;
extern const CcInfo kNsccReceiverCredit;
extern const CcInfo kReceiverCredit;
extern const CcInfo kSwift;
extern const CcInfo kTimely;

}  // namespace spindrift
