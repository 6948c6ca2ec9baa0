/* Opens an endpoint in C, and chooses an algorithm by the name that is its argument. */
#include <spindrift/c_api.h>
#include <stdio.h>

int main(int count, char** arguments) {
  char sentence[512];
  spindrift_endpoint* endpoint = NULL;
  spindrift_conn conn = 0;
  spindrift_connect_options options;
  int code = spindrift_connect_options_init(&options, sizeof options);
  if (count > 1) options.congestion_control = arguments[1];
  if (code == SPINDRIFT_OK) code = spindrift_open("udp://", NULL, &endpoint);
  if (code == SPINDRIFT_OK)
    code = spindrift_connect(endpoint, "udp://127.0.0.1:9", &options, &conn);
  spindrift_destroy(endpoint);
  if (code == SPINDRIFT_OK) return 0;
  spindrift_last_error(sentence, sizeof sentence);
  fprintf(stderr, "%s: %s\n", spindrift_error_name(code), sentence);
  return 1;
}
