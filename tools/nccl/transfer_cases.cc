// Single sends and receives, and what their arguments may be.
#include <algorithm>
#include <array>
#include <cstring>

#include "tools/nccl/cases.h"

namespace spindrift::nccl_check {
namespace {

constexpr std::size_t kBufferBytes = 4U << 20U;

// A self-connection with one registered buffer for each end.
struct Loop {
  explicit Loop(Rank& of) : rank(of), channel(of.open_channel(0, 0, 0)) {
    require_ok(rank.net().register_memory(channel.send, source.data(), source.size(), &sent_from),
               "regMr");
    require_ok(rank.net().register_memory(channel.recv, target.data(), target.size(), &received_in),
               "regMr");
  }
  void close() {
    require_ok(rank.net().deregister_memory(channel.send, sent_from), "deregMr");
    require_ok(rank.net().deregister_memory(channel.recv, received_in), "deregMr");
    rank.close(channel);
    require_ok(rank.net().finalize(), "finalize");
  }
  void* post_receive(std::size_t offset, std::size_t capacity, int tag = 0) {
    return receive_until_taken(rank.net(), channel.recv,
                               {{.data = target.data() + offset,
                                 .capacity = capacity,
                                 .tag = tag,
                                 .handle = received_in}});
  }
  void* post_send(std::size_t offset, std::size_t bytes, int tag = 0) {
    return send_until_taken(rank.net(), channel.send, source.data() + offset, bytes, tag,
                            sent_from);
  }

  Rank& rank;
  Channel channel;
  Buffer source{kBufferBytes};
  Buffer target{kBufferBytes};
  void* sent_from = nullptr;
  void* received_in = nullptr;
};

void sizes(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{129},
        std::size_t{4096}, std::size_t{100003}, std::size_t{1} << 20U, kBufferBytes}) {
    fill_pattern(loop.source.data(), bytes, bytes);
    void* const receive = loop.post_receive(0, kBufferBytes);
    void* const send = loop.post_send(0, bytes);
    std::array<int, 64> got{};
    got.fill(-1);
    finish(net, receive, got.data(), "a receive");
    finish(net, send, nullptr, "a send");
    require(got[0] == static_cast<int>(bytes),
            "a receive of " + std::to_string(bytes) + " bytes reported " + std::to_string(got[0]));
    require(has_pattern(loop.target.data(), bytes, bytes),
            "contents of " + std::to_string(bytes) + " bytes are wrong");
  }
  loop.close();
}

void early_send(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  fill_pattern(loop.source.data(), 4096, 1);
  void* send = reinterpret_cast<void*>(std::uintptr_t{0xdead});
  require_ok(net.isend(loop.channel.send, loop.source.data(), 4096, 0, loop.sent_from, &send),
             "isend before a receive");
  require(send != reinterpret_cast<void*>(std::uintptr_t{0xdead}),
          "isend left a stale request: NCCL would test it");
  std::array<int, 8> got{};
  if (send != nullptr) {
    int done = 0x5a5a5a5a;
    require_ok(net.test(send, &done, nullptr), "test");
    require(done == 0 || done == 1, "test left done uninitialised");
    if (done == 1) send = nullptr;
  } else {
    send = nullptr;
  }
  void* const receive = loop.post_receive(0, 8192);
  if (send == nullptr) send = loop.post_send(0, 4096);
  finish(net, receive, got.data(), "the receive");
  finish(net, send, nullptr, "the send");
  require(got[0] == 4096, "the receive's size is wrong");
  loop.close();
}

// Everything NCCL may have outstanding, then in order.
void outstanding(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  constexpr std::size_t kBytes = 1024;
  std::vector<void*> receives;
  std::vector<void*> sends;
  for (std::size_t i = 0; i < nccl::kMaxRequests; ++i) {
    fill_pattern(loop.source.data() + i * kBytes, kBytes - i, i);
    receives.push_back(loop.post_receive(i * kBytes, kBytes));
  }
  for (std::size_t i = 0; i < nccl::kMaxRequests; ++i)
    sends.push_back(loop.post_send(i * kBytes, kBytes - i));
  for (std::size_t i = 0; i < nccl::kMaxRequests; ++i) {
    std::array<int, 8> got{};
    finish(net, receives[i], got.data(), "receive " + std::to_string(i));
    finish(net, sends[i], nullptr, "send " + std::to_string(i));
    require(got[0] == static_cast<int>(kBytes - i),
            "sends and receives of one connection met out of order");
    require(has_pattern(loop.target.data() + i * kBytes, kBytes - i, i), "wrong contents");
  }
  loop.close();
}

// As many groups as NCCL may have outstanding, each as large as may be, met from the last tag on.
void outstanding_groups(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  Properties properties;
  require_ok(net.properties(0, &properties), "getProperties");
  const auto members = static_cast<std::size_t>(properties.max_receives);
  constexpr std::size_t kGroups = nccl::kMaxRequests;
  constexpr std::size_t kBytes = 512;
  std::vector<void*> receives;
  for (std::size_t i = 0; i < kGroups; ++i) {
    std::vector<Receive> group;
    for (std::size_t k = 0; k < members; ++k)
      group.push_back({.data = loop.target.data() + (i * members + k) * kBytes,
                       .capacity = kBytes,
                       .tag = static_cast<int>(k),
                       .handle = loop.received_in});
    receives.push_back(receive_until_taken(net, loop.channel.recv, group));
  }
  std::vector<void*> sends;
  for (std::size_t i = 0; i < kGroups; ++i)
    for (std::size_t k = members; k-- != 0;) {
      const std::size_t at = (i * members + k) * kBytes;
      fill_pattern(loop.source.data() + at, kBytes, at);
      sends.push_back(loop.post_send(at, kBytes - k, static_cast<int>(k)));
    }
  for (std::size_t i = 0; i < kGroups; ++i) {
    std::array<int, 64> got{};
    finish(net, receives[i], got.data(), "group " + std::to_string(i));
    for (std::size_t k = 0; k < members; ++k) {
      const std::size_t at = (i * members + k) * kBytes;
      require(got[k] == static_cast<int>(kBytes - k), "a size of a group is wrong");
      require(has_pattern(loop.target.data() + at, kBytes - k, at), "groups met out of order");
    }
  }
  for (void* const send : sends)
    finish(net, send, nullptr, "a send to a group");
  loop.close();
}

// n receives of one group, sent in the opposite order, with the tags telling which is which.
void grouped(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  Properties properties;
  require_ok(net.properties(0, &properties), "getProperties");
  const int n = properties.max_receives;
  if (n == 1) throw Skipped("maxRecvs is 1");
  constexpr std::size_t kBytes = 4096;
  for (int round = 0; round < 20; ++round) {
    std::vector<Receive> group;
    group.reserve(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i)
      group.push_back({.data = loop.target.data() + static_cast<std::size_t>(i) * kBytes,
                       .capacity = kBytes,
                       .tag = 100 + i,
                       .handle = loop.received_in});
    void* const receive = receive_until_taken(net, loop.channel.recv, group);
    std::vector<void*> sends;
    for (int i = n - 1; i >= 0; --i) {
      const std::size_t at = static_cast<std::size_t>(i) * kBytes;
      fill_pattern(loop.source.data() + at, kBytes, static_cast<std::uint64_t>(i));
      sends.push_back(loop.post_send(at, kBytes - static_cast<std::size_t>(i), 100 + i));
    }
    std::array<int, 64> got{};
    finish(net, receive, got.data(), "a group");
    for (void* const send : sends)
      finish(net, send, nullptr, "a send to a group");
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      require(got[at] == static_cast<int>(kBytes) - i, "a size of the group is wrong");
      require(has_pattern(loop.target.data() + at * kBytes, kBytes - at, at),
              "a tag met the wrong buffer");
    }
  }
  loop.close();
}

void optional_completion(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  for (int i = 0; i < 100; ++i) {
    void* receive = nccl::kOptionalCompletion;
    while (receive == nccl::kOptionalCompletion || receive == nullptr) {
      receive = nccl::kOptionalCompletion;
      require_ok(net.irecv(loop.channel.recv,
                           {{.data = loop.target.data(),
                             .capacity = 4096,
                             .tag = 0,
                             .handle = loop.received_in}},
                           &receive),
                 "irecv");
      require(receive != nccl::kOptionalCompletion,
              "irecv left the literal 0x1 in place of a request");
    }
    void* const send = loop.post_send(0, 256);
    finish(net, receive, nullptr, "a receive without sizes");
    finish(net, send, nullptr, "a send");
  }
  loop.close();
}

void oversize(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  static_cast<void>(loop.post_receive(0, 1024));
  NcclResult result = nccl::kSuccess;
  void* send = nullptr;
  while (result == nccl::kSuccess && send == nullptr)
    result = net.isend(loop.channel.send, loop.source.data(), 4096, 0, loop.sent_from, &send);
  for (int done = 0; result == nccl::kSuccess && done == 0;)
    result = net.test(send, &done, nullptr);
  require(result != nccl::kSuccess, "a send longer than its receive was carried out");
  require(said().warnings > 0, "a send longer than its receive failed without a word");
  loop.close();
}

void flush(Rank& rank) {
  Loop loop(rank);
  Net& net = rank.net();
  void* const receive = loop.post_receive(0, 4096);
  void* const send = loop.post_send(0, 4096);
  finish(net, receive, nullptr, "a receive");
  finish(net, send, nullptr, "a send");
  void* request = reinterpret_cast<void*>(std::uintptr_t{0xdead});
  require_ok(
      net.iflush(
          loop.channel.recv,
          {.data = loop.target.data(), .capacity = 4096, .tag = 0, .handle = loop.received_in},
          4096, &request),
      "iflush");
  require(request != reinterpret_cast<void*>(std::uintptr_t{0xdead}),
          "iflush left a stale request");
  if (request != nullptr) finish(net, request, nullptr, "a flush");
  loop.close();
}

// What ptrSupport does not name must be refused: NCCL would count on it.
void device_memory(Rank& rank) {
  Channel channel = rank.open_channel(0, 0, 0);
  Net& net = rank.net();
  Properties properties;
  require_ok(net.properties(0, &properties), "getProperties");
  Buffer buffer(65536);
  void* handle = nullptr;
  if ((properties.ptr_support & nccl::kPtrCuda) == 0) {
    require(net.register_memory(channel.recv, buffer.data(), buffer.size(), &handle,
                                nccl::kPtrCuda) != nccl::kSuccess,
            "regMr took device memory, which ptrSupport does not name");
    require(said().warnings > 0, "device memory was refused without a word");
  }
  if ((properties.ptr_support & nccl::kPtrDmaBuf) == 0)
    require(
        net.register_dma_buf(channel.recv, buffer.data(), buffer.size(), &handle) != nccl::kSuccess,
        "regMrDmaBuf took memory, and ptrSupport does not name DMA-BUF");
  rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

// NCCL's three buffers per connection, the same pages again and again, and a user's odd pieces.
void registrations(Rank& rank) {
  Channel channel = rank.open_channel(0, 0, 0);
  Net& net = rank.net();
  Buffer simple(4194304);
  Buffer ll(524288);
  Buffer ll128(4915200);
  std::vector<std::pair<void*, void*>> made;
  const auto add = [&](void* comm, unsigned char* data, std::size_t bytes) {
    void* handle = nullptr;
    require_ok(net.register_memory(comm, data, bytes, &handle), "regMr");
    made.emplace_back(comm, handle);
    return handle;
  };
  for (std::size_t i = 0; i < 50; ++i)
    for (void* const comm : {channel.send, channel.recv}) {
      add(comm, simple.data(), simple.size());
      add(comm, ll.data(), ll.size());
      add(comm, ll128.data(), ll128.size());
      add(comm, simple.data() + std::size_t{4097} * (i + 1), 1000003);
    }
  void* const source = add(channel.send, simple.data() + 13, 5000);
  void* const target = add(channel.recv, ll.data() + 29, 5000);
  fill_pattern(simple.data() + 13, 5000, 3);
  void* const receive = receive_until_taken(
      net, channel.recv, {{.data = ll.data() + 29, .capacity = 5000, .tag = 0, .handle = target}});
  void* const send = send_until_taken(net, channel.send, simple.data() + 13, 5000, 0, source);
  finish(net, receive, nullptr, "a receive into odd memory");
  finish(net, send, nullptr, "a send from odd memory");
  require(has_pattern(ll.data() + 29, 5000, 3), "contents of odd memory are wrong");
  for (const auto& [comm, handle] : made)
    require_ok(net.deregister_memory(comm, handle), "deregMr");
  rank.close(channel);
  require_ok(net.finalize(), "finalize");
}

constexpr Case kCases[] = {
    {"sizes", "transfers", "0 bytes to 4 MiB arrive whole in a larger buffer, with their size", 1,
     sizes},
    {"early_send", "transfers", "a send before its receive leaves no stale request", 1, early_send},
    {"outstanding", "transfers", "32 requests each way are outstanding, and meet in order", 1,
     outstanding},
    {"outstanding_groups", "transfers",
     "32 groups of as many receives as maxRecvs are outstanding, and meet in order", 1,
     outstanding_groups},
    {"grouped", "transfers", "grouped receives meet their sends by tag, in any order", 1, grouped},
    {"optional_completion", "transfers", "the request 0x1 on entry and NULL sizes are understood",
     1, optional_completion},
    {"oversize", "transfers", "a send longer than its receive is an error with a warning", 1,
     oversize},
    {"flush", "transfers", "iflush ends", 1, flush},
    {"device_memory", "transfers", "memory of a kind that ptrSupport does not name is refused", 1,
     device_memory},
    {"registrations", "transfers", "memory is registered often, in odd pieces and overlapping", 1,
     registrations},
};

}  // namespace

std::span<const Case> transfer_cases() {
  return kCases;
}

}  // namespace spindrift::nccl_check
