#pragma once
// What watches a run while it goes on: the files of --events and --pcap.
#include <memory>
#include <string>
#include <vector>

#include "tools/sim/event_file.h"
#include "tools/sim/pcap_file.h"

namespace spindrift::simtool {

struct WatchOptions {
  std::string events{};                   // file; empty: none
  std::vector<std::string> events_of{};   // see parse_event_filter()
  std::uint64_t events_max = 10'000'000;  // lines
  std::vector<std::string> captures{};    // "leaf0>host1=FILE"
  bool is_empty() const { return events.empty() && captures.empty(); }
};

// Each file is told of everything.
class Watch final : public sim::RunObserver {
 public:
  // Makes the files. `links` are the names there are. kInvalidArgument: the options are wrong,
  // and no file was touched; kIo: a file cannot be written.
  static Result<std::unique_ptr<Watch>> open(const WatchOptions& options,
                                             std::span<const std::string> links);

  std::optional<sim::Complaint> begin(const sim::NetworkPlan& plan,
                                      std::span<const sim::FlowRecord> flows) override;
  void on_packet(const sim::PacketEvent& event) override;
  void on_port(const sim::PortEvent& event) override;
  void on_flow(const sim::FlowEvent& event) override;
  // After the run: the first file that is not whole.
  [[nodiscard]] Status finish();

 private:
  std::unique_ptr<EventFile> events_;
  std::vector<std::unique_ptr<PcapFile>> captures_;
  std::vector<sim::RunObserver*> all_;
};

}  // namespace spindrift::simtool
