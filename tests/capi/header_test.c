/* The headers for C compile as C11 without a warning, and mean the same as in C++: c_api_test.cc
 * compares the sizes. */
#include "spindrift/c_api.h"
#include "spindrift/plugin.h"

const size_t kSizesInC[] = {
    sizeof(spindrift_open_options),
    sizeof(spindrift_register_options),
    sizeof(spindrift_connect_options),
    sizeof(spindrift_listen_options),
    sizeof(spindrift_region),
    sizeof(spindrift_remote_region),
    sizeof(spindrift_event),
    sizeof(spindrift_conn_info),
    sizeof(spindrift_work),
    sizeof(spindrift_completion),
    sizeof(spindrift_path_report),
    sizeof(spindrift_sge),
    sizeof(spindrift_plugin_table),
    sizeof(spindrift_plugin_cc),
    sizeof(spindrift_plugin_ack),
    sizeof(spindrift_plugin_path_selector),
};
