#pragma once
// Counters of one connection, by name.
#include <cstdint>

#include "spindrift/stats.h"

namespace spindrift {

// name: what it counts
#define SPINDRIFT_CONNECTION_COUNTERS(X)                                             \
  X(packets_sent)          /* data packets, retransmissions included */              \
  X(bytes_sent)            /* payload, retransmissions included */                   \
  X(packets_received)      /* data packets accepted, each once */                    \
  X(bytes_received)        /* payload accepted */                                    \
  X(retransmits_reordered) /* a later packet of the same path, or of time, passed */ \
  X(retransmits_trimmed)   /* a switch cut the payload */                            \
  X(retransmits_timeout)   /* nothing was heard for an RTO */                        \
  X(retransmits_not_ready) /* the receiver had no RECEIVE for it yet */              \
  X(spurious_retransmits)  /* the original had arrived after all */                  \
  X(acks_sent)                                                                       \
  X(acks_received)                                                                   \
  X(acks_stale)      /* told nothing new and were older than the edge */             \
  X(acks_impossible) /* ACKs and NACKs for PSNs never sent: dropped */               \
  X(nacks_sent)                                                                      \
  X(nacks_received)                                                                  \
  X(probes_sent)                                                                     \
  X(probes_answered)                                                                 \
  X(timeouts) /* retransmission timer expired */                                     \
  X(duplicates_received)                                                             \
  X(out_of_window_received)                                                          \
  X(malformed_received)                                                              \
  X(crc_errors)                                                                      \
  X(marked_received)    /* data packets that arrived with ECN CE */                  \
  X(marked_acks)        /* acknowledgements that reported CE */                      \
  X(receiver_not_ready) /* messages that met no RECEIVE (receiver side) */           \
  X(requests_refused)   /* key, bounds, right or length: it ended the connection */  \
  X(requests_completed)                                                              \
  X(receives_completed)                                                              \
  X(chunks_fetched) /* reads of what the peer offered */                             \
  X(chunks_lost)    /* of these, lost by a lane and asked for again */               \
  X(paths_went_bad)                                                                  \
  X(paths_restored)                                                                  \
  X(cc_limits_clamped)       /* limits of the algorithm that made no sense */        \
  X(path_picks_out_of_range) /* picks of the policy that are no path */              \
  X(credit_requests_sent)    /* packets that ask the peer for credit */              \
  X(credit_grants_sent)      /* packets that tell the peer what it may send */       \
  X(credit_grants_received)

struct ConnectionCounters {
#define SPINDRIFT_FIELD(name) std::uint64_t name = 0;
  SPINDRIFT_CONNECTION_COUNTERS(SPINDRIFT_FIELD)
#undef SPINDRIFT_FIELD

  void write(CounterWriter& out) const {
#define SPINDRIFT_WRITE(name) out.counter(#name, name);
    SPINDRIFT_CONNECTION_COUNTERS(SPINDRIFT_WRITE)
#undef SPINDRIFT_WRITE
  }
  void add(const ConnectionCounters& other) {
#define SPINDRIFT_ADD(name) name += other.name;
    SPINDRIFT_CONNECTION_COUNTERS(SPINDRIFT_ADD)
#undef SPINDRIFT_ADD
  }
};

// What arrived and belonged to no connection, and the endpoint's own.
#define SPINDRIFT_ENDPOINT_COUNTERS(X)                                      \
  X(connections_opened)                                                     \
  X(connections_failed)                                                     \
  X(hellos_received)                                                        \
  X(hellos_refused)                                                         \
  X(cookies_sent)                                                           \
  X(strangers_received)    /* packets for no connection of ours */          \
  X(strangers_answered)    /* of these, told so */                          \
  X(wrong_source_received) /* a known connection, another host's address */ \
  X(malformed_strangers)                                                    \
  X(completion_queue_overflows)                                             \
  X(receive_pressure_turns) /* found the receive buffer nearly full */      \
  X(guardian_turns)         /* turns of the loop the guardian made */

struct EndpointCounters {
#define SPINDRIFT_FIELD(name) std::uint64_t name = 0;
  SPINDRIFT_ENDPOINT_COUNTERS(SPINDRIFT_FIELD)
#undef SPINDRIFT_FIELD
  void write(CounterWriter& out) const {
#define SPINDRIFT_WRITE(name) out.counter(#name, name);
    SPINDRIFT_ENDPOINT_COUNTERS(SPINDRIFT_WRITE)
#undef SPINDRIFT_WRITE
  }
};

}  // namespace spindrift
