#pragma once
// The multipath packet engine: all connections of one endpoint. Packets and time come in, packets,
// completions and a next deadline come out. No clock, no socket, no thread.
#include <memory>
#include <span>
#include <string>

#include "spindrift/endpoint.h"

#include "transport/engine_context.h"
#include "transport/handshake.h"

namespace spindrift {

class PacketEngine {
 public:
  PacketEngine(const EndpointConfig& config, const Registry& registry, RailDirectory& rails,
               const EngineIdentity& identity);

  EngineContext& context() { return ctx_; }
  const EngineContext& context() const { return ctx_; }

  void on_packets(std::span<const RxPacket> packets, Time now);
  // How much one turn found waiting: when it comes near what the provider can hold, all peers are
  // asked to send less (receiver penalty).
  void note_backlog(std::uint64_t bytes);
  void on_io_error(const IoError& error, Time now);
  void on_timers(Time now);
  // Fills a prefix of reserved packets; zero: nothing may be sent now.
  [[nodiscard]] std::size_t poll_transmit(std::span<TxPacket> out, Time now);
  // One burst of data of `c`, and the acknowledgements it owes if they go along; the rest stays for
  // poll_transmit().
  [[nodiscard]] std::size_t transmit_posted(Connection& c, std::span<TxPacket> out, Time now);
  [[nodiscard]] bool sends_acks_along() const;
  [[nodiscard]] bool has_something_to_send() const {
    return !ctx_.ready.is_empty() || !ctx_.strangers.is_empty();
  }
  [[nodiscard]] Time next_deadline() const { return ctx_.timers.next(); }

  void close(Connection& c, Time now);
  void abort(Connection& c);
  void release(Connection& c);

 private:
  void on_packet(const RxPacket& packet, Time now);
  void on_link(const IoError& event, Time now);
  [[nodiscard]] bool take_data(const RxPacket& packet, Time now);
  void on_trimmed_packet(const RxPacket& packet);
  void on_connection_packet(Connection& c, const wire::Pds& pds, const RxPacket& packet, Time now);
  void on_stranger(const wire::Pds& pds, const RxPacket& packet);
  [[nodiscard]] std::size_t transmit(Connection& c, std::span<TxPacket> out, Time now, bool& more);

  EngineContext ctx_;
};

}  // namespace spindrift
