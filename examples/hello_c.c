/* hello_write.cc in C: a server registers memory and hands it out, a client writes into it.
 *   hello_c server udp://127.0.0.1:4793
 *   hello_c client udp://127.0.0.1:4793
 * Port 0 picks a free one; the server prints where it listens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spindrift/c_api.h"

static const int64_t kSecond = 1000000000;

static void must(int code) {
  char sentence[512];
  if (code >= 0) return;
  spindrift_last_error(sentence, sizeof sentence);
  fprintf(stderr, "hello_c: %s: %s\n", spindrift_error_name(code), sentence);
  exit(1);
}

static spindrift_completion must_complete(spindrift_endpoint* endpoint,
                                          const spindrift_work* work) {
  spindrift_completion done = {.struct_size = sizeof done};
  must(spindrift_post(endpoint, work, 1, NULL));
  must(spindrift_wait_completion(endpoint, 60 * kSecond, &done));
  if (done.status != SPINDRIFT_STATUS_OK) {
    char cause[512];
    spindrift_conn_error(endpoint, work->conn, cause, sizeof cause);
    fprintf(stderr, "hello_c: %s: %s\n", spindrift_status_name(done.status), cause);
    exit(1);
  }
  return done;
}

static void wait_closed(spindrift_endpoint* endpoint) {
  spindrift_event event = {.struct_size = sizeof event};
  do {
    must(spindrift_wait_event(endpoint, 60 * kSecond, &event));
  } while (event.kind == SPINDRIFT_EVENT_ESTABLISHED);
}

static void serve(spindrift_endpoint* endpoint, const char* address) {
  static char memory[64];
  char listening[128];
  uint8_t name[SPINDRIFT_REGION_WIRE_BYTES];
  spindrift_region region = {.struct_size = sizeof region};
  spindrift_connect_options options;
  spindrift_conn conn = 0;
  spindrift_completion arrived;
  spindrift_work receive = {.struct_size = sizeof receive, .op = SPINDRIFT_OP_RECEIVE};

  must(spindrift_register(endpoint, memory, sizeof memory, SPINDRIFT_REMOTE_WRITE, NULL, &region));
  must(spindrift_listen(endpoint, address, NULL, NULL));
  must((int)spindrift_local_address(endpoint, 0, listening, sizeof listening));
  printf("listening on %s\n", listening);
  fflush(stdout);
  /* Whoever connects learns from our private data where it may write. */
  must(spindrift_region_pack(&region, name));
  must(spindrift_connect_options_init(&options, sizeof options));
  options.private_data = name;
  options.private_bytes = sizeof name;
  must(spindrift_accept_one(endpoint, 60 * kSecond, &options, &conn));
  /* A write with immediate consumes a receive, whose completion carries the immediate. */
  receive.conn = conn;
  arrived = must_complete(endpoint, &receive);
  printf("received: %.*s\n", (int)arrived.immediate, memory);
  wait_closed(endpoint); /* the client does */
}

static void write_hello(spindrift_endpoint* endpoint, const char* address) {
  static char text[] = "hello from C";
  const uint32_t length = (uint32_t)strlen(text);
  spindrift_conn conn = 0;
  spindrift_conn_info info = {.struct_size = sizeof info};
  spindrift_remote_region remote = {.struct_size = sizeof remote};
  spindrift_region region = {.struct_size = sizeof region};
  spindrift_sge source;
  spindrift_work work = {.struct_size = sizeof work, .op = SPINDRIFT_OP_WRITE_IMM};

  must(spindrift_connect_and_wait(endpoint, address, NULL, &conn));
  must(spindrift_info(endpoint, conn, &info));
  must(spindrift_region_unpack(info.private_data, info.private_bytes, &remote));
  must(spindrift_register(endpoint, text, length, SPINDRIFT_LOCAL_READ, NULL, &region));
  source.data = text;
  source.bytes = length;
  source.local_key = region.local_key;
  work.conn = conn;
  work.immediate = length;
  work.local = &source;
  work.local_count = 1;
  work.remote_key = remote.key;
  (void)must_complete(endpoint, &work);
  must(spindrift_close(endpoint, conn));
  wait_closed(endpoint);
}

int main(int count, char** arguments) {
  spindrift_endpoint* endpoint = NULL;
  const char* role = count == 3 ? arguments[1] : "";
  if (strcmp(role, "server") != 0 && strcmp(role, "client") != 0) {
    fprintf(stderr, "usage: hello_c server|client udp://HOST:PORT|shm://NAME\n");
    return 2;
  }
  char provider[16] = "";  /* "udp://" of "udp://HOST:PORT" */
  const char* separator = strstr(arguments[2], "://");
  if (separator != NULL && separator - arguments[2] < 12)
    memcpy(provider, arguments[2], (size_t)(separator - arguments[2]) + 3);
  must(spindrift_open(separator != NULL ? provider : arguments[2], NULL, &endpoint));
  if (strcmp(role, "server") == 0)
    serve(endpoint, arguments[2]);
  else
    write_hello(endpoint, arguments[2]);
  spindrift_destroy(endpoint);
  return 0;
}
