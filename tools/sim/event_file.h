#pragma once
// Everything that happens in a run, a line of JSON each, written as it happens. docs/SIMULATOR.md
// has the format.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/result.h"

#include "tools/sim/packet_names.h"

namespace spindrift::simtool {

// What is written: an empty set lets everything pass.
struct EventFilter {
  std::set<sim::EventKind> kinds{};
  std::set<std::string> links{};
  std::set<std::uint32_t> flows{};
};
// Each of "drop" (a kind), "flow=3", "leaf0>host1".
Result<EventFilter> parse_event_filter(std::span<const std::string> words);

class EventFile final : public sim::RunObserver {
 public:
  // The file is made at once. After `events_max` events one more line says that there were more.
  static Result<std::unique_ptr<EventFile>> open(const std::string& path, EventFilter filter,
                                                 std::uint64_t events_max);

  std::optional<sim::Complaint> begin(const sim::NetworkPlan& plan,
                                      std::span<const sim::FlowRecord> flows) override;
  void on_packet(const sim::PacketEvent& event) override;
  void on_port(const sim::PortEvent& event) override;
  void on_flow(const sim::FlowEvent& event) override;
  // After the run: whether all of it is in the file.
  [[nodiscard]] Status finish();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct FlowEnds {
    std::string text{};  // "flow":3,"from":"host1","to":"host2","bytes":4096
    bool is_wanted = true;
  };
  EventFile(std::string path, EventFilter filter, std::uint64_t events_max)
      : path_(std::move(path)), filter_(std::move(filter)), events_max_(events_max) {}
  bool wants(sim::EventKind kind, std::uint32_t port) const {
    return (filter_.kinds.empty() || filter_.kinds.contains(kind)) && wanted_ports_[port];
  }
  bool wants_connection(std::uint32_t flow) const {
    return wanted_connections_.empty() || wanted_connections_.contains(flow);
  }
  // {"at_ps":AT,"event":"KIND",REST}
  void write(sim::Picoseconds at, sim::EventKind kind, std::string_view rest);

  std::string path_;
  EventFilter filter_;
  std::uint64_t events_max_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::vector<std::string> links_;  // by port
  std::vector<bool> wanted_ports_;
  std::vector<std::string> hosts_;  // names
  std::vector<FlowEnds> flows_;
  std::set<std::uint32_t> wanted_connections_;  // by first flow; empty: all
  PacketNames names_;
  std::uint64_t written_ = 0;
  std::uint64_t left_out_ = 0;
  int error_ = 0;  // errno of the first write that failed
};

}  // namespace spindrift::simtool
