#pragma once
// librdmacm, loaded when it is needed: who connects by TCP needs none. Internal to providers/verbs.
#include <rdma/rdma_cma.h>

#include "spindrift/result.h"

namespace spindrift {

// Its functions, under their own names.
struct RdmaCm {
  decltype(&rdma_create_event_channel) create_event_channel = nullptr;
  decltype(&rdma_destroy_event_channel) destroy_event_channel = nullptr;
  decltype(&rdma_create_id) create_id = nullptr;
  decltype(&rdma_destroy_id) destroy_id = nullptr;
  decltype(&rdma_migrate_id) migrate_id = nullptr;
  decltype(&rdma_bind_addr) bind_addr = nullptr;
  decltype(&rdma_listen) listen = nullptr;
  decltype(&rdma_resolve_addr) resolve_addr = nullptr;
  decltype(&rdma_resolve_route) resolve_route = nullptr;
  decltype(&rdma_create_qp) create_qp = nullptr;
  decltype(&rdma_destroy_qp) destroy_qp = nullptr;
  decltype(&rdma_connect) connect = nullptr;
  decltype(&rdma_accept) accept = nullptr;
  decltype(&rdma_disconnect) disconnect = nullptr;
  decltype(&rdma_get_cm_event) get_cm_event = nullptr;
  decltype(&rdma_ack_cm_event) ack_cm_event = nullptr;
  decltype(&rdma_get_src_port) get_src_port = nullptr;
  decltype(&rdma_event_str) event_str = nullptr;

  // kUnsupported, with what is missing.
  static Result<const RdmaCm*> load();
};

}  // namespace spindrift
