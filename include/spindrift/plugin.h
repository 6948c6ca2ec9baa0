#pragma once
/* The border to loadable algorithms and path policies: a table of C functions, so that a shared
 * object needs neither this library nor its compiler. C++ authors include plugin_adapter.h instead
 * and write the ordinary classes.
 *
 * A shared object exports one function:
 *
 *   const spindrift_plugin_table* spindrift_plugin_v1(void);
 *
 * The table, and all that it points to, lives as long as the process: shared objects are never
 * unloaded. No function may throw. An instance is called by one thread at a time; different
 * instances may be called by different threads at once.
 *
 * Structs that may grow begin with `struct_size`, the sizeof of whoever filled them in; read no
 * field beyond it. Structs without it stay as they are in version 1. Times are nanoseconds of the
 * provider's clock, durations nanoseconds, rates bits per second. */
#include <stddef.h>
#include <stdint.h>

/* Names as C has them. NOLINTBEGIN(readability-identifier-naming) */
#ifdef __cplusplus
extern "C" {
#endif

#define SPINDRIFT_PLUGIN_VERSION 1u
/* A timer that is not set; a limit that does not limit. */
#define SPINDRIFT_PLUGIN_NEVER INT64_MAX
#define SPINDRIFT_PLUGIN_NO_LIMIT UINT64_MAX

/* --- congestion control; what each field means stands in congestion_control.h --------------- */

typedef struct spindrift_plugin_limits {
  size_t struct_size;
  uint64_t window_bytes;
  uint64_t credit_bytes;
  uint64_t pacing_rate_bps; /* 0: unpaced */
  int64_t timer_ns;
} spindrift_plugin_limits;

typedef struct spindrift_plugin_flow {
  size_t struct_size;
  int64_t now_ns;
  int64_t base_rtt_ns;
  int64_t host_latency_ns;
  uint64_t link_rate_bps; /* 0: unknown */
  uint64_t max_window_bytes;
  uint32_t mtu_bytes;
} spindrift_plugin_flow;

typedef struct spindrift_plugin_hop {
  uint64_t tx_bytes;
  uint64_t timestamp_ns;
  uint64_t link_rate_bps;
  uint32_t queue_bytes;
  uint32_t link_id;
} spindrift_plugin_hop;

typedef struct spindrift_plugin_ack {
  size_t struct_size;
  int64_t now_ns;
  int64_t sent_time_ns;
  int64_t rtt_ns; /* 0: no valid sample */
  uint64_t acked_bytes;
  uint64_t received_bytes;
  uint64_t in_flight_bytes;
  uint64_t delivered_bytes;         /* over delivery_interval_ns */
  int64_t delivery_interval_ns;     /* 0: no sample */
  const spindrift_plugin_hop* hops; /* oldest first; hop_count of them */
  size_t hop_count;
  uint32_t acked_packets;
  uint32_t out_of_order_packets;
  uint8_t receiver_penalty;
  uint8_t restores_window;
  uint8_t is_marked;
  uint8_t is_app_limited;
} spindrift_plugin_ack;

enum {
  SPINDRIFT_PLUGIN_LOSS_REORDERED = 0,
  SPINDRIFT_PLUGIN_LOSS_TRIMMED = 1,
  SPINDRIFT_PLUGIN_LOSS_TRIMMED_LAST_HOP = 2,
  SPINDRIFT_PLUGIN_LOSS_TIMEOUT = 3
};

typedef struct spindrift_plugin_loss {
  size_t struct_size;
  int64_t now_ns;
  int64_t newest_sent_time_ns;
  uint64_t lost_bytes;
  uint64_t in_flight_bytes;
  uint32_t lost_packets;
  uint32_t cause;
} spindrift_plugin_loss;

/* Kinds may be added: an algorithm leaves its limits alone for one it does not know. */
enum {
  SPINDRIFT_PLUGIN_SIGNAL_CONGESTION_NOTIFICATION = 0,
  SPINDRIFT_PLUGIN_SIGNAL_CREDIT_GRANTED = 1, /* bytes: cumulative credit */
  SPINDRIFT_PLUGIN_SIGNAL_TIMER_FIRED = 2,
  SPINDRIFT_PLUGIN_SIGNAL_PATH_CHANGED = 3,     /* base_rtt_ns, link_rate_bps */
  SPINDRIFT_PLUGIN_SIGNAL_LOSS_WAS_SPURIOUS = 4 /* bytes */
};

typedef struct spindrift_plugin_signal {
  size_t struct_size;
  int64_t now_ns;
  uint64_t bytes;
  int64_t base_rtt_ns;
  uint64_t link_rate_bps;
  uint32_t kind;
} spindrift_plugin_signal;

typedef struct spindrift_plugin_parameter {
  const char* name;
  const char* unit; /* may be "" */
  double default_value;
  double min;
  double max;
  const char* help;
  const char* source;
} spindrift_plugin_parameter;

/* Traits of an algorithm, combined with |. */
enum {
  SPINDRIFT_PLUGIN_NEEDS_ECN = 1,
  SPINDRIFT_PLUGIN_NEEDS_TELEMETRY = 2,
  SPINDRIFT_PLUGIN_NEEDS_CNP = 4,
  SPINDRIFT_PLUGIN_IS_RECEIVER_DRIVEN = 8
};

/* Reports one number; `name` is copied. */
typedef void (*spindrift_plugin_field)(void* writer, const char* name, double value);

typedef struct spindrift_plugin_cc {
  size_t struct_size;
  const char* name; /* lower_case_1, at most 63 characters */
  const char* summary;
  uint32_t traits;
  uint32_t parameter_count;
  const spindrift_plugin_parameter* parameters;
  const void* context; /* handed to make */
  /* `values` run parallel to `parameters` and lie within their bounds. NULL: impossible. */
  void* (*make)(const void* context, const spindrift_plugin_flow* flow, const double* values,
                size_t value_count);
  void (*destroy)(void* self);
  /* `limits` comes in as it stands; what is left alone stays. initial: unlimited, no timer. */
  void (*initial)(const void* self, spindrift_plugin_limits* limits);
  void (*on_ack)(void* self, const spindrift_plugin_ack* event, spindrift_plugin_limits* limits);
  void (*on_loss)(void* self, const spindrift_plugin_loss* event, spindrift_plugin_limits* limits);
  void (*on_signal)(void* self, const spindrift_plugin_signal* event,
                    spindrift_plugin_limits* limits);
  void (*describe)(const void* self, spindrift_plugin_field field, void* writer); /* may be NULL */
} spindrift_plugin_cc;

/* --- path policies; see path_selector.h ------------------------------------------------------ */

enum {
  SPINDRIFT_PLUGIN_PATH_DELIVERED = 0,
  SPINDRIFT_PLUGIN_PATH_MARKED = 1,
  SPINDRIFT_PLUGIN_PATH_TRIMMED = 2,
  SPINDRIFT_PLUGIN_PATH_LOST = 3,
  SPINDRIFT_PLUGIN_PATH_TIMED_OUT = 4
};

typedef struct spindrift_plugin_feedback {
  int64_t rtt_ns; /* 0: no sample */
  uint32_t packets;
  uint16_t path;
  uint8_t outcome;
  uint8_t reserved;
} spindrift_plugin_feedback;

typedef struct spindrift_plugin_path_selector {
  size_t struct_size;
  const char* name; /* lower_case_1, at most 63 characters */
  const char* summary;
  const void* context;                                                    /* handed to make */
  void* (*make)(const void* context, uint32_t path_count, uint64_t seed); /* NULL: impossible */
  void (*destroy)(void* self);
  void (*pick)(void* self, uint16_t* paths, size_t count);
  void (*on_feedback)(void* self, const spindrift_plugin_feedback* feedback, size_t count);
  void (*describe)(const void* self, spindrift_plugin_field field, void* writer); /* may be NULL */
} spindrift_plugin_path_selector;

/* --- what the shared object exports ---------------------------------------------------------- */

typedef struct spindrift_plugin_table {
  size_t struct_size;
  uint32_t version; /* SPINDRIFT_PLUGIN_VERSION */
  uint32_t congestion_control_count;
  const spindrift_plugin_cc* const* congestion_controls;
  const spindrift_plugin_path_selector* const* path_selectors;
  uint32_t path_selector_count;
} spindrift_plugin_table;

#if defined(__GNUC__)
#define SPINDRIFT_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define SPINDRIFT_PLUGIN_EXPORT
#endif

#define SPINDRIFT_PLUGIN_SYMBOL "spindrift_plugin_v1"
typedef const spindrift_plugin_table* (*spindrift_plugin_entry)(void);
SPINDRIFT_PLUGIN_EXPORT const spindrift_plugin_table* spindrift_plugin_v1(void);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */
