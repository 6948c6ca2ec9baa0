#pragma once
// Whoever wants to see every single thing that happens in the network of a run.
#include <cstdint>
#include <optional>
#include <span>

#include "sim/network_plan.h"
#include "sim/simulation.h"

namespace spindrift::sim {

struct Packet;  // packet_pool.h

enum class EventKind : std::uint8_t {
  kEnqueue,  // a packet takes its place at a port, be it for no time at all
  kMark,     // ... gets its ECN mark, as it leaves the queue
  kDequeue,  // ... leaves the queue: its first bit is on the link
  kTrim,     // ... loses its payload, for want of room; it is enqueued then, or dropped
  kDrop,     // ... is gone
  kPause,    // the port was told to send no data
  kResume,
  kLinkDown,
  kLinkUp,
  kFlowStart,
  kFlowEnd,
};
enum class DropCause : std::uint8_t {
  kFull,     // no room in the queue: it was never enqueued
  kLoss,     // the link's random loss, after it was dequeued
  kDown,     // the link was down, or went down while it was on it
  kNoRoute,  // the switch knows no way
};

// Times are picoseconds after the workload's start.
struct PacketEvent {
  Picoseconds at = 0;
  EventKind kind = EventKind::kEnqueue;
  DropCause cause = DropCause::kFull;  // of kDrop
  std::uint32_t port = 0;
  std::uint64_t queue_bytes = 0;         // data that waits at the port, after the event
  const Packet* packet = nullptr;        // valid during the call
  std::span<const std::byte> payload{};  // of UDP, as much of it as is kept
};
struct PortEvent {
  Picoseconds at = 0;
  EventKind kind = EventKind::kPause;  // or kResume, kLinkDown, kLinkUp
  std::uint32_t port = 0;
};
struct FlowEvent {
  Picoseconds at = 0;
  EventKind kind = EventKind::kFlowStart;  // or kFlowEnd
  std::uint32_t flow = 0;                  // index into Results::flows
  bool has_failed = false;
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // Once, before the first event; the flows are valid during the call. What it complains of ends
  // the run before it begins. Setting the run up is not observed.
  virtual std::optional<Complaint> begin(const NetworkPlan& plan,
                                         std::span<const FlowRecord> flows) = 0;
  virtual void on_packet(const PacketEvent& event) = 0;
  virtual void on_port(const PortEvent& event) = 0;
  virtual void on_flow(const FlowEvent& event) = 0;
};

}  // namespace spindrift::sim
