#pragma once
/* The C API: all of an endpoint for programs in C, and for other languages through it. The contract
 * of the operations stands at the top of endpoint.h. This is the part of the library whose binary
 * interface stays as it is (CONTRIBUTING.md, "Compatibility").
 *
 * Structs begin with `struct_size`, where the caller puts the sizeof it was compiled with; the
 * library reads and fills in no more than that. Fields that the caller does not know have their
 * defaults. Fields that the library does not know must be zero, or the call is refused. Of an
 * array, all elements carry the same size. Structs with defaults have an init function:
 * `spindrift_connect_options_init(&options, sizeof options)`. A null pointer to options means the
 * defaults. The defaults are those of config.h, changed by the settings of files and of the
 * environment (tunables.h), which are read once, by the first call that needs them. Calls that need
 * settings that cannot be read are refused with the sentence that names the value and its place.
 *
 * Functions that return int return SPINDRIFT_OK or a negative code, and those that count a number
 * or a negative code; spindrift_last_error() then has the sentence that names the value, the limit
 * and what to do. No function throws. An endpoint belongs to one thread at a time. Times and
 * durations are nanoseconds; a negative timeout waits for ever. Strings end with a zero byte.
 * Functions that write text return its length like snprintf, and cut it off where the buffer ends.
 */
#include <stddef.h>
#include <stdint.h>

#include "spindrift/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spindrift_endpoint spindrift_endpoint;
typedef uint32_t spindrift_conn;         /* zero is never one */
typedef uint32_t spindrift_listener;     /* zero is never one */
typedef uint32_t spindrift_shared_queue; /* zero: none */

enum {
  SPINDRIFT_OK = 0,
  SPINDRIFT_INVALID_ARGUMENT = -1, /* the caller's mistake */
  SPINDRIFT_NOT_FOUND = -2,        /* no such connection, region, name */
  SPINDRIFT_UNSUPPORTED = -3,      /* not on this provider or this host */
  SPINDRIFT_NO_MEMORY = -4,        /* a limit was reached; the sentence names it */
  SPINDRIFT_UNAVAILABLE = -5,      /* busy or not now; trying again may help */
  SPINDRIFT_TIMED_OUT = -6,
  SPINDRIFT_IO = -7,            /* the operating system refused */
  SPINDRIFT_QUEUE_FULL = -8,    /* post: the rest fits after completions were polled */
  SPINDRIFT_NOT_CONNECTED = -9, /* post: no such connection, or it is closing, closed or failed */
  SPINDRIFT_INTERNAL = -10      /* a bug of the library, or a callback threw */
};

SPINDRIFT_EXPORT const char* spindrift_version(void); /* "0.1.0" */
SPINDRIFT_EXPORT void spindrift_wire_versions(uint32_t* lowest, uint32_t* highest);
/* The sentence about the last call of this thread that failed. */
SPINDRIFT_EXPORT size_t spindrift_last_error(char* buffer, size_t capacity);
SPINDRIFT_EXPORT const char* spindrift_error_name(int code); /* "invalid argument" */

/* Names in files and in the environment that nobody knows: sentence `index`, with the nearest known
 * name. SPINDRIFT_NOT_FOUND behind the last. */
SPINDRIFT_EXPORT ptrdiff_t spindrift_setting_warning(size_t index, char* buffer, size_t capacity);

/* --- endpoints ------------------------------------------------------------------------------ */

/* Meaning, units and bounds: EndpointConfig in config.h, OpenOptions in open.h. */
typedef struct spindrift_open_options {
  size_t struct_size;
  const char* faults;  /* NULL: none */
  const char* capture; /* NULL: none */
  uint32_t max_connections;
  uint32_t max_regions;
  uint32_t completion_queue;
  uint32_t send_queue;
  uint32_t receive_queue;
  uint32_t window_packets;
  uint32_t inline_buffers;
  uint32_t max_reads;
  uint32_t turn_packets;
  uint32_t half_open_before_cookie;
  uint32_t has_guardian;
  uint32_t partition_key;
  int64_t guardian_takeover_ns;
  uint64_t seed;
} spindrift_open_options;
SPINDRIFT_EXPORT int spindrift_open_options_init(spindrift_open_options* options,
                                                 size_t struct_size);

/* "udp://", "udp://10.0.0.1:4793,10.1.0.1:4793" */
SPINDRIFT_EXPORT int spindrift_open(const char* address, const spindrift_open_options* options,
                                    spindrift_endpoint** endpoint);
/* Aborts every connection. NULL is allowed. */
SPINDRIFT_EXPORT void spindrift_destroy(spindrift_endpoint* endpoint);

/* --- memory --------------------------------------------------------------------------------- */

enum { /* rights on a region, combined with | */
       SPINDRIFT_LOCAL_READ = 0,
       SPINDRIFT_LOCAL_WRITE = 1,
       SPINDRIFT_REMOTE_READ = 2,
       SPINDRIFT_REMOTE_WRITE = 4,
       SPINDRIFT_REMOTE_ATOMIC = 8
};
enum { SPINDRIFT_MEMORY_HOST = 0, SPINDRIFT_MEMORY_DMABUF = 1 };

typedef struct spindrift_register_options {
  size_t struct_size;
  uint32_t type;
  int32_t dmabuf_fd; /* SPINDRIFT_MEMORY_DMABUF only, else -1 */
  uint32_t is_line_ordered;
  uint32_t reserved;
} spindrift_register_options;
SPINDRIFT_EXPORT int spindrift_register_options_init(spindrift_register_options* options,
                                                     size_t struct_size);

/* What a peer needs to reach a region. */
typedef struct spindrift_remote_region {
  size_t struct_size;
  uint64_t key;
  uint64_t bytes;
  uint64_t base;
  uint32_t rights;
  uint32_t reserved;
} spindrift_remote_region;

typedef struct spindrift_region {
  size_t struct_size;
  void* data;
  uint64_t bytes;
  uint32_t local_key; /* for spindrift_sge */
  uint32_t rights;
  uint64_t remote_key; /* for the work of a peer */
  uint64_t remote_base;
} spindrift_region;

SPINDRIFT_EXPORT int spindrift_register(spindrift_endpoint* endpoint, void* data, size_t bytes,
                                        uint32_t rights, const spindrift_register_options* options,
                                        spindrift_region* region);
/* Refused (SPINDRIFT_UNAVAILABLE) while work that names the region is outstanding, or while the
 * provider still reads from it: progress, and try again. */
SPINDRIFT_EXPORT int spindrift_deregister(spindrift_endpoint* endpoint,
                                          const spindrift_region* region);

/* A region's name as bytes for a message or private data. */
#define SPINDRIFT_REGION_WIRE_BYTES 32
SPINDRIFT_EXPORT int spindrift_region_pack(const spindrift_region* region,
                                           uint8_t wire[SPINDRIFT_REGION_WIRE_BYTES]);
SPINDRIFT_EXPORT int spindrift_region_unpack(const void* wire, size_t wire_bytes,
                                             spindrift_remote_region* region);

/* --- connections ---------------------------------------------------------------------------- */

enum { SPINDRIFT_CRC_AUTO = 0, SPINDRIFT_CRC_ON = 1, SPINDRIFT_CRC_OFF = 2 };

/* Meaning, units and bounds: ConnectOptions in config.h. */
typedef struct spindrift_connect_options {
  size_t struct_size;
  const char* congestion_control; /* "nscc", "dcqcn:g=0.004", "./libfoo.so"; NULL: the default */
  const char* path_selector;      /* NULL: the default */
  const void* private_data;
  size_t private_bytes;
  const char* const* local_addresses; /* local_address_count of them; 0: the default */
  size_t local_address_count;
  uint32_t path_count;
  uint32_t burst_bytes;
  uint32_t max_payload_mtu;
  uint32_t crc;
  uint32_t dscp;
  uint32_t control_dscp;
  spindrift_shared_queue shared_receive_queue;
  uint32_t reserved;
  int64_t connect_timeout_ns;
  int64_t default_timeout_ns;
  int64_t close_timeout_ns;
  int64_t silence_limit_ns;
  int64_t silence_limit_passive_ns;
  int64_t keepalive_ns;
  int64_t rto_min_ns;
  int64_t rto_max_ns;
  int64_t base_rtt_ns;
  uint64_t link_rate_bps;
  const char* loss_rule; /* "per_path", "rack"; NULL: the default */
} spindrift_connect_options;
SPINDRIFT_EXPORT int spindrift_connect_options_init(spindrift_connect_options* options,
                                                    size_t struct_size);

typedef struct spindrift_listen_options {
  size_t struct_size;
  uint32_t backlog;
  uint32_t reserved;
} spindrift_listen_options;
SPINDRIFT_EXPORT int spindrift_listen_options_init(spindrift_listen_options* options,
                                                   size_t struct_size);

SPINDRIFT_EXPORT int spindrift_listen(spindrift_endpoint* endpoint, const char* address,
                                      const spindrift_listen_options* options,
                                      spindrift_listener* listener);
SPINDRIFT_EXPORT int spindrift_stop_listening(spindrift_endpoint* endpoint,
                                              spindrift_listener listener);
/* The index-th local address; SPINDRIFT_NOT_FOUND after the last. */
SPINDRIFT_EXPORT ptrdiff_t spindrift_local_address(spindrift_endpoint* endpoint, size_t index,
                                                   char* buffer, size_t capacity);

/* Returns at once; an event follows. */
SPINDRIFT_EXPORT int spindrift_connect(spindrift_endpoint* endpoint, const char* address,
                                       const spindrift_connect_options* options,
                                       spindrift_conn* conn);
SPINDRIFT_EXPORT int spindrift_accept(spindrift_endpoint* endpoint, spindrift_conn conn,
                                      const spindrift_connect_options* options);
SPINDRIFT_EXPORT int spindrift_reject(spindrift_endpoint* endpoint, spindrift_conn conn,
                                      const char* reason);
SPINDRIFT_EXPORT int spindrift_close(spindrift_endpoint* endpoint, spindrift_conn conn);
SPINDRIFT_EXPORT int spindrift_abort(spindrift_endpoint* endpoint, spindrift_conn conn);
SPINDRIFT_EXPORT int spindrift_release(spindrift_endpoint* endpoint, spindrift_conn conn);
SPINDRIFT_EXPORT int spindrift_deny_path(spindrift_endpoint* endpoint, spindrift_conn conn,
                                         uint32_t path, int is_denied);

enum {
  SPINDRIFT_EVENT_REQUEST = 0, /* accept or reject it */
  SPINDRIFT_EVENT_ESTABLISHED = 1,
  SPINDRIFT_EVENT_CLOSED = 2,
  SPINDRIFT_EVENT_FAILED = 3 /* spindrift_conn_error() has the cause */
};
typedef struct spindrift_event {
  size_t struct_size;
  uint32_t kind;
  spindrift_conn conn;
  spindrift_listener listener; /* of a request */
  uint32_t reserved;
} spindrift_event;
/* How many of up to `capacity` events were filled in. */
SPINDRIFT_EXPORT ptrdiff_t spindrift_poll_events(spindrift_endpoint* endpoint,
                                                 spindrift_event* events, size_t capacity);

enum {
  SPINDRIFT_STATE_CONNECTING = 0,
  SPINDRIFT_STATE_REQUESTED = 1,
  SPINDRIFT_STATE_OPEN = 2,
  SPINDRIFT_STATE_DRAINING = 3,
  SPINDRIFT_STATE_CLOSED = 4,
  SPINDRIFT_STATE_FAILED = 5
};
#define SPINDRIFT_PRIVATE_BYTES 192
typedef struct spindrift_conn_info {
  size_t struct_size;
  uint32_t state;
  uint32_t payload_mtu;
  uint32_t path_count;
  uint32_t has_crc;
  uint32_t peer_progresses_alone;
  uint32_t private_bytes;
  uint8_t private_data[SPINDRIFT_PRIVATE_BYTES]; /* the peer's */
  char local_address[128];
  char remote_address[128];
  char congestion_control[64];
  char path_selector[64];
  char loss_rule[64];
} spindrift_conn_info;
SPINDRIFT_EXPORT int spindrift_info(spindrift_endpoint* endpoint, spindrift_conn conn,
                                    spindrift_conn_info* info);
/* Why the connection failed, or why the last call on it was refused; for a conn of zero, the
 * endpoint's own last refusal. */
SPINDRIFT_EXPORT ptrdiff_t spindrift_conn_error(spindrift_endpoint* endpoint, spindrift_conn conn,
                                                char* buffer, size_t capacity);

/* --- work ----------------------------------------------------------------------------------- */

enum {
  SPINDRIFT_OP_SEND = 0,
  SPINDRIFT_OP_RECEIVE = 1,
  SPINDRIFT_OP_WRITE = 2,
  SPINDRIFT_OP_WRITE_IMM = 3,
  SPINDRIFT_OP_READ = 4,
  SPINDRIFT_OP_FETCH_ADD = 5,
  SPINDRIFT_OP_COMPARE_SWAP = 6
};
enum {
  SPINDRIFT_WORK_UNSIGNALED = 1, /* no completion when it succeeds */
  SPINDRIFT_WORK_FENCE = 2,      /* starts after all earlier READs and atomics have completed */
  SPINDRIFT_WORK_INLINE = 4      /* the bytes are copied now; no region needed */
};
/* One piece of a scatter/gather list. Stays as it is. */
typedef struct spindrift_sge {
  void* data;
  uint32_t bytes;
  uint32_t local_key;
} spindrift_sge;

typedef struct spindrift_work {
  size_t struct_size;
  uint64_t user_data;
  spindrift_conn conn;
  uint32_t op;
  uint32_t flags;
  uint32_t immediate;
  const spindrift_sge* local; /* local_count of them, up to 8; need to live until post returns */
  size_t local_count;
  uint64_t remote_key;
  uint64_t remote_offset;
  uint64_t operand;   /* atomics */
  uint64_t compare;   /* compare-swap */
  int64_t timeout_ns; /* 0: the connection's default */
} spindrift_work;
/* Accepts a prefix; `accepted` (may be NULL) says how long, the code why no more. */
SPINDRIFT_EXPORT int spindrift_post(spindrift_endpoint* endpoint, const spindrift_work* work,
                                    size_t count, size_t* accepted);

SPINDRIFT_EXPORT int spindrift_create_shared_queue(spindrift_endpoint* endpoint, uint32_t capacity,
                                                   spindrift_shared_queue* queue);
SPINDRIFT_EXPORT int spindrift_post_shared(spindrift_endpoint* endpoint,
                                           spindrift_shared_queue queue,
                                           const spindrift_work* receives, size_t count,
                                           size_t* accepted);

enum {
  SPINDRIFT_STATUS_OK = 0,
  SPINDRIFT_STATUS_TIMED_OUT = 1,
  SPINDRIFT_STATUS_PEER_GONE = 2,
  SPINDRIFT_STATUS_REMOTE_KEY = 3,
  SPINDRIFT_STATUS_REMOTE_ACCESS = 4,
  SPINDRIFT_STATUS_REMOTE_BOUNDS = 5,
  SPINDRIFT_STATUS_REMOTE_ALIGNMENT = 6,
  SPINDRIFT_STATUS_REMOTE_LENGTH = 7,
  SPINDRIFT_STATUS_REMOTE_UNSUPPORTED = 8,
  SPINDRIFT_STATUS_LOCAL_LENGTH = 9,
  SPINDRIFT_STATUS_FLUSHED = 10
};
enum {
  SPINDRIFT_COMPLETION_HAS_IMMEDIATE = 1,
  SPINDRIFT_COMPLETION_IS_SHARED = 2 /* the RECEIVE came from a shared queue */
};
typedef struct spindrift_completion {
  size_t struct_size;
  uint64_t user_data;
  uint64_t bytes;
  spindrift_conn conn;
  uint32_t op;
  uint32_t status;
  uint32_t flags;
  uint32_t immediate;
  uint32_t reserved;
} spindrift_completion;
SPINDRIFT_EXPORT ptrdiff_t spindrift_poll(spindrift_endpoint* endpoint,
                                          spindrift_completion* completions, size_t capacity);

SPINDRIFT_EXPORT const char* spindrift_op_name(uint32_t op);
SPINDRIFT_EXPORT const char* spindrift_status_name(uint32_t status);
SPINDRIFT_EXPORT const char* spindrift_state_name(uint32_t state);

/* --- the loop ------------------------------------------------------------------------------- */

SPINDRIFT_EXPORT int spindrift_progress(spindrift_endpoint* endpoint);
/* Readable when there may be something to do, after arm; -1 for providers without. */
SPINDRIFT_EXPORT int spindrift_wait_fd(spindrift_endpoint* endpoint);
/* 1: armed, wait for the descriptor; 0: there is something to do already. */
SPINDRIFT_EXPORT int spindrift_arm(spindrift_endpoint* endpoint);
SPINDRIFT_EXPORT int spindrift_wait(spindrift_endpoint* endpoint, int64_t timeout_ns);
/* INT64_MAX: never. */
SPINDRIFT_EXPORT int64_t spindrift_next_deadline(spindrift_endpoint* endpoint);
SPINDRIFT_EXPORT int64_t spindrift_now(spindrift_endpoint* endpoint);

/* For programs that have nothing else to do meanwhile. */
SPINDRIFT_EXPORT int spindrift_wait_event(spindrift_endpoint* endpoint, int64_t timeout_ns,
                                          spindrift_event* event);
SPINDRIFT_EXPORT int spindrift_wait_completion(spindrift_endpoint* endpoint, int64_t timeout_ns,
                                               spindrift_completion* completion);
SPINDRIFT_EXPORT int spindrift_connect_and_wait(spindrift_endpoint* endpoint, const char* address,
                                                const spindrift_connect_options* options,
                                                spindrift_conn* conn);
SPINDRIFT_EXPORT int spindrift_accept_one(spindrift_endpoint* endpoint, int64_t timeout_ns,
                                          const spindrift_connect_options* options,
                                          spindrift_conn* conn);

/* --- reports -------------------------------------------------------------------------------- */

typedef void (*spindrift_counter_fn)(void* context, const char* name, uint64_t value);
typedef void (*spindrift_field_fn)(void* context, const char* name, double value);
/* Of the connection, or for zero of the endpoint with all its connections and the provider. */
SPINDRIFT_EXPORT int spindrift_counters(spindrift_endpoint* endpoint, spindrift_conn conn,
                                        spindrift_counter_fn function, void* context);
/* State of the connection's flow: window, rate, RTT, and the algorithm's own. */
SPINDRIFT_EXPORT int spindrift_describe(spindrift_endpoint* endpoint, spindrift_conn conn,
                                        spindrift_field_fn function, void* context);

typedef struct spindrift_path_report {
  size_t struct_size;
  char local_address[128];
  char remote_address[128];
  char state[16]; /* "good", "skip", "bad", "denied" */
  uint64_t packets_sent;
  uint64_t bytes_sent;
  uint64_t packets_lost;
  uint64_t packets_marked;
  int64_t rtt_ns; /* smoothed; 0: none yet */
} spindrift_path_report;
/* Paths 0 .. capacity - 1; the result is the number of paths there are. */
SPINDRIFT_EXPORT ptrdiff_t spindrift_paths(spindrift_endpoint* endpoint, spindrift_conn conn,
                                           spindrift_path_report* reports, size_t capacity);

#ifdef __cplusplus
}
#endif
