#pragma once
// What leaves onto one direction of a simulated link, as a capture that Wireshark reads: Ethernet,
// IPv4 and UDP around the packets as they are. Bytes that the run does not carry are zero.
#include <memory>
#include <string>
#include <vector>

#include "spindrift/result.h"

#include "tools/sim/packet_names.h"

namespace spindrift::simtool {

class PcapFile final : public sim::RunObserver {
 public:
  // The file is made at once.
  static Result<std::unique_ptr<PcapFile>> open(const std::string& link, const std::string& path);
  ~PcapFile() override;
  PcapFile(const PcapFile&) = delete;
  PcapFile& operator=(const PcapFile&) = delete;

  std::optional<sim::Complaint> begin(const sim::NetworkPlan& plan,
                                      std::span<const sim::FlowRecord> flows) override;
  void on_packet(const sim::PacketEvent& event) override;
  void on_port(const sim::PortEvent& /*event*/) override {}
  void on_flow(const sim::FlowEvent& /*event*/) override {}
  // After the run: whether all of it is in the file.
  [[nodiscard]] Status finish();

 private:
  struct Capture;
  PcapFile(std::string link, std::string path, std::unique_ptr<Capture> capture);
  void write(sim::Picoseconds at);

  std::string link_;
  std::string path_;
  std::unique_ptr<Capture> capture_;
  std::vector<bool> ports_;  // of this name
  std::vector<std::byte> frame_;
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace spindrift::simtool
