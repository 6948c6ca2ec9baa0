#include "providers/verbs/rdma_cm.h"

#include <string>

#include <dlfcn.h>

namespace spindrift {
namespace {

constexpr const char* kLibrary = "librdmacm.so.1";

Result<RdmaCm> load_all() {
  // Never unloaded: it keeps threads and tables of its own.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    return Error(ErrorCode::kUnsupported,
                 std::string("verbs: cm=rdma needs librdmacm (Debian: librdmacm1): ") +
                     ::dlerror());  // NOLINT(concurrency-mt-unsafe): of this thread's own call
  RdmaCm out;
  const char* missing = nullptr;
  const auto find = [&](auto& to, const char* name) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(library, name));
    if (to == nullptr) missing = name;
  };
  find(out.create_event_channel, "rdma_create_event_channel");
  find(out.destroy_event_channel, "rdma_destroy_event_channel");
  find(out.create_id, "rdma_create_id");
  find(out.destroy_id, "rdma_destroy_id");
  find(out.migrate_id, "rdma_migrate_id");
  find(out.bind_addr, "rdma_bind_addr");
  find(out.listen, "rdma_listen");
  find(out.resolve_addr, "rdma_resolve_addr");
  find(out.resolve_route, "rdma_resolve_route");
  find(out.create_qp, "rdma_create_qp");
  find(out.destroy_qp, "rdma_destroy_qp");
  find(out.connect, "rdma_connect");
  find(out.accept, "rdma_accept");
  find(out.disconnect, "rdma_disconnect");
  find(out.get_cm_event, "rdma_get_cm_event");
  find(out.ack_cm_event, "rdma_ack_cm_event");
  find(out.get_src_port, "rdma_get_src_port");
  find(out.event_str, "rdma_event_str");
  if (missing == nullptr) return out;
  return Error(ErrorCode::kUnsupported,
               std::string("verbs: cm=rdma: ") + kLibrary + " has no " + missing + "; update it");
}

}  // namespace

Result<const RdmaCm*> RdmaCm::load() {
  static const Result<RdmaCm> loaded = load_all();
  if (!loaded.ok()) return loaded.error();
  return &loaded.value();
}

}  // namespace spindrift
