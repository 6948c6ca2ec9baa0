#include "tests/providers/verbs/fake_verbs.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

// verbs.h makes macros of them.
#undef ibv_query_port

namespace spindrift::test {
namespace {

ibv_device device{};
ibv_context context{};
ibv_pd domain{};
ibv_comp_channel channel{};
ibv_cq queue{};
ibv_qp pair{};
ibv_mr memory{};
std::array<ibv_device*, 2> list{&device, nullptr};

}  // namespace

FakePort& fake_port() {
  static FakePort port;
  return port;
}

std::vector<FakeStep>& fake_steps() {
  static std::vector<FakeStep> steps;
  return steps;
}

FakeDmaBuf& fake_dma_buf() {
  static FakeDmaBuf last;
  return last;
}

}  // namespace spindrift::test

using spindrift::test::fake_dma_buf;
using spindrift::test::fake_port;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return spindrift::test::list.data();
}
void ibv_free_device_list(ibv_device** /*list*/) {}
const char* ibv_get_device_name(ibv_device* /*device*/) {
  return "fake0";
}

ibv_context* ibv_open_device(ibv_device* device) {
  spindrift::test::context.device = device;
  spindrift::test::context.async_fd = 0;
  return &spindrift::test::context;
}
int ibv_close_device(ibv_context* /*context*/) {
  return 0;
}

int ibv_query_device(ibv_context* /*context*/, ibv_device_attr* out) {
  *out = {};
  out->phys_port_cnt = 1;
  out->max_cqe = 1000;
  return 0;
}

int ibv_query_port(ibv_context* /*context*/, std::uint8_t /*number*/, _compat_ibv_port_attr* out) {
  ibv_port_attr port{};
  port.state = IBV_PORT_ACTIVE;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = IBV_MTU_4096;
  port.active_width = 2;
  port.active_speed = 32;
  port.lid = fake_port().lid;
  port.link_layer = fake_port().is_infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  if (fake_port().requires_grh) port.flags = IBV_QPF_GRH_REQUIRED;
  std::memcpy(static_cast<void*>(out), &port, sizeof(port));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* /*context*/, ibv_gid_entry* out, std::size_t /*most*/,
                             std::uint32_t /*flags*/, std::size_t /*entry_bytes*/) {
  *out = {};
  out->gid_type = fake_port().is_infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  out->port_num = 1;
  for (int byte = 0; byte < 8; ++byte)
    out->gid.raw[byte] = static_cast<std::uint8_t>(fake_port().subnet >> (8 * (7 - byte)));
  out->gid.raw[15] = 1;
  return 1;
}

ibv_pd* ibv_alloc_pd(ibv_context* /*context*/) {
  return &spindrift::test::domain;
}
int ibv_dealloc_pd(ibv_pd* /*domain*/) {
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* /*context*/) {
  spindrift::test::channel.fd = 0;
  return &spindrift::test::channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* /*channel*/) {
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* /*context*/, int /*entries*/, void* /*of*/,
                      ibv_comp_channel* /*channel*/, int /*vector*/) {
  return &spindrift::test::queue;
}
int ibv_destroy_cq(ibv_cq* /*queue*/) {
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* /*channel*/, ibv_cq** /*queue*/, void** /*of*/) {
  return -1;
}
ibv_qp* ibv_create_qp(ibv_pd* /*domain*/, ibv_qp_init_attr* wish) {
  spindrift::test::pair.qp_num = 77;
  spindrift::test::pair.send_cq = wish->send_cq;
  return &spindrift::test::pair;
}
int ibv_destroy_qp(ibv_qp* /*pair*/) {
  return 0;
}
int ibv_modify_qp(ibv_qp* /*pair*/, ibv_qp_attr* attributes, int mask) {
  spindrift::test::fake_steps().push_back({*attributes, mask});
  return 0;
}

// NOLINTNEXTLINE(readability-function-size): the parameters are libibverbs'
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* /*domain*/, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t address, int descriptor, int access) {
  auto& last = fake_dma_buf();
  if (last.refusal != 0) {
    errno = last.refusal;
    return nullptr;
  }
  const int registered = last.registered + 1;
  last = {.offset = offset,
          .bytes = bytes,
          .address = address,
          .descriptor = descriptor,
          .access = access,
          .registered = registered};
  spindrift::test::memory.lkey = 11;
  spindrift::test::memory.rkey = 12;
  return &spindrift::test::memory;
}
int ibv_dereg_mr(ibv_mr* /*memory*/) {
  --fake_dma_buf().registered;
  return 0;
}

}  // extern "C"
