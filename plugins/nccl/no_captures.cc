// Stands in for providers/wrap/pcap_io.cc at the linker's seam: the library that NCCL loads depends
// on the C library alone, so it brings no libpcap.
#include "providers/wrap/pcap_io.h"

namespace spindrift {

Result<std::unique_ptr<PacketIo>> wrap_with_capture(std::unique_ptr<PacketIo> /*inner*/,
                                                    const std::string& path, bool /*has_date*/) {
  return Error(ErrorCode::kUnsupported,
               "the NCCL plugin writes no captures (" + path + "); use tcpdump");
}

}  // namespace spindrift
