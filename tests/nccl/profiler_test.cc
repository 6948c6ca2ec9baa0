// The profiler's callback, which NCCL hands over from version 10 on.
#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl {
namespace {

void ignore(int /*level*/, unsigned long /*flags*/, const char* /*file*/, int /*line*/,
            const char* /*format*/, ...) {}

// The descriptor of version 1 of sockets.
struct SocketDescriptor {
  std::uint8_t type;
  struct {
    int fd;
    int op;
    std::size_t length;
  } socket;
};

struct Heard {
  std::vector<void*> parents;
  std::vector<std::size_t> lengths;
  std::vector<std::int64_t> plugins;
  int stops = 0;
  int stops_of_strangers = 0;
  std::array<int, 16> events{};
};
Heard& heard() {
  static Heard one;
  return one;
}

NcclResult listen_in(void** event, int call, void* parent, std::int64_t plugin, void* details) {
  Heard& all = heard();
  if (call == kProfileStart) {
    *event = &all.events[all.parents.size()];
    all.parents.push_back(parent);
    all.plugins.push_back(plugin);
    all.lengths.push_back(static_cast<SocketDescriptor*>(details)->socket.length);
  } else if (call == kProfileStop) {
    ++all.stops;
    const auto* const known = static_cast<int*>(*event);
    if (known < all.events.data() || known >= all.events.data() + all.parents.size())
      ++all.stops_of_strangers;
  }
  return kSuccess;
}

void connect_to_self(const NetV10& net, void** send, void** recv) {
  std::array<char, kHandleBytes> handle{};
  void* listener = nullptr;
  ASSERT_EQ(net.listen(0, handle.data(), &listener), kSuccess);
  while (*send == nullptr || *recv == nullptr) {
    if (*send == nullptr) {
      ASSERT_EQ(net.connect(0, nullptr, handle.data(), send, nullptr), kSuccess);
    }
    if (*recv == nullptr) {
      ASSERT_EQ(net.accept(listener, recv, nullptr), kSuccess);
    }
  }
  ASSERT_EQ(net.closeListen(listener), kSuccess);
}

TEST(Profiler, HearsOfEveryTransferThatHasAParent) {
  void* const library = ::dlopen(SPINDRIFT_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const NetV10& net = *static_cast<const NetV10*>(::dlsym(library, "ncclNetPlugin_v10"));
  ASSERT_EQ(net.init(ignore, listen_in), kSuccess);
  void* send = nullptr;
  void* recv = nullptr;
  connect_to_self(net, &send, &recv);
  std::vector<char> memory(8192);
  void* handle = nullptr;
  ASSERT_EQ(net.regMr(send, memory.data(), memory.size(), kPtrHost, &handle), kSuccess);
  int parent = 0;
  for (const bool has_parent : {true, false}) {
    void* target = memory.data();
    std::size_t capacity = 4096;
    int tag = 0;
    void* profiled_by = has_parent ? &parent : nullptr;
    void* receive = nullptr;
    while (receive == nullptr) {
      ASSERT_EQ(net.irecv(recv, 1, &target, &capacity, &tag, &handle, &profiled_by, &receive),
                kSuccess);
    }
    void* sent = nullptr;
    while (sent == nullptr) {
      ASSERT_EQ(net.isend(send, memory.data() + 4096, 1000, 0, handle, profiled_by, &sent),
                kSuccess);
    }
    for (void* const request : {receive, sent})
      for (int done = 0; done == 0;) {
        ASSERT_EQ(net.test(request, &done, nullptr), kSuccess);
      }
  }
  EXPECT_EQ(heard().parents, (std::vector<void*>{&parent, &parent}));
  EXPECT_EQ(heard().lengths, (std::vector<std::size_t>{4096, 1000}));
  EXPECT_EQ(heard().plugins, (std::vector<std::int64_t>{2 << 16 | 1, 2 << 16 | 1}));
  EXPECT_EQ(heard().stops, 2);
  EXPECT_EQ(heard().stops_of_strangers, 0);
  EXPECT_EQ(net.deregMr(send, handle), kSuccess);
  EXPECT_EQ(net.closeSend(send), kSuccess);
  EXPECT_EQ(net.closeRecv(recv), kSuccess);
  EXPECT_EQ(::dlclose(library), 0);  // other tests load it with settings of their own
}

}  // namespace
}  // namespace spindrift::nccl
