#pragma once
// NCCL's calls with the types of one version for all; exports.cc adapts them. None throws, none
// blocks, and what goes wrong is said in NCCL's log.
#include <cstddef>
#include <cstdint>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/devices.h"

namespace spindrift::nccl::calls {

// For versions 6 to 10, which know no communicators. `version` is for the log.
NcclResult init(int version, Logger logger, ProfilerCallback profiler);
// From version 11 on; *context is null after a failure.
NcclResult init_context(int version, void** context, const CommConfig* config, Logger logger,
                        ProfilerCallback profiler);
NcclResult finalize(void* context);
NcclResult devices(int* count);
// Null: there is none of that number.
const Device* find_device(int index);
NcclResult make_device(int* index, int count, const int* parts);

// `context` is null for versions up to 10.
NcclResult listen(void* context, int device, void* handle, void** listen_comm);
NcclResult connect(void* context, int device, int traffic_class, void* handle, void** send_comm);
NcclResult accept(void* listen_comm, void** recv_comm);
NcclResult close_send(void* send_comm);
NcclResult close_recv(void* recv_comm);
NcclResult close_listen(void* listen_comm);

NcclResult register_memory(void* comm, void* data, std::size_t bytes, int type, void** handle);
NcclResult register_dma_buf(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** handle);
NcclResult deregister_memory(void* comm, void* handle);
NcclResult isend(void* send_comm, void* data, std::size_t bytes, int tag, void* handle,
                 void* profiled_by, void** request);
struct Receives {
  int count = 0;
  void** data = nullptr;
  const std::size_t* sizes = nullptr;
  const int* tags = nullptr;
  void** handles = nullptr;
  void** profiled_by = nullptr;  // may be null
};
NcclResult irecv(void* recv_comm, const Receives& receives, void** request);
NcclResult iflush(void* recv_comm, void** request);
NcclResult test(void* request, int* done, int* sizes);

// Whether LL128 may be chosen (the tuner asks); true before init.
bool keeps_ll128();

}  // namespace spindrift::nccl::calls
