// A plain network plugin over the kernel's TCP, to compare with. It moves bytes as NCCL's built-in
// socket transport does: a control socket carries the length of every message, and short payload
// with it; longer payload is cut into pieces of 64 KiB or more over the data sockets, as many as
// PLAIN_TCP_SOCKETS says (1). Everything happens in test(), on the caller's thread. Nothing of
// Spindrift is in it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/nccl/abi.h"

namespace {

using namespace spindrift::nccl;  // NOLINT(google-build-using-namespace): the interface's types

constexpr std::uint64_t kMagic = 0x6e69616c70706374ULL;
constexpr std::size_t kInlineBytes = 128;
constexpr std::size_t kShortestPiece = 64U << 10U;
constexpr std::size_t kRequests = 64;

struct Handle {
  std::uint64_t magic = kMagic;
  std::uint64_t nonce = 0;
  sockaddr_in address{};
};
static_assert(sizeof(Handle) <= kHandleBytes);

// First on every socket.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint64_t nonce = 0;       // the listener's
  std::uint64_t connection = 0;  // which sockets belong together
  std::uint32_t index = 0;       // 0: control
  std::uint32_t count = 0;
};

struct Request {
  bool is_used = false;
  bool is_done = false;
  bool is_send = false;
  struct Comm* comm = nullptr;
  char* data = nullptr;
  std::size_t bytes = 0;  // capacity of a receive until its length has come
  std::size_t pieces_left = 0;
};

struct Piece {
  Request* request = nullptr;
  char* data = nullptr;
  std::size_t bytes = 0;
};

// The length, and the payload of a short message behind it.
struct Control {
  std::array<char, sizeof(std::uint32_t) + kInlineBytes> bytes{};
  std::size_t length = sizeof(std::uint32_t);
  std::size_t done = 0;
};

struct Comm {
  bool is_failed = false;
  std::vector<int> sockets;               // 0: control
  std::vector<std::deque<Piece>> pieces;  // by socket
  std::deque<Request*> waiting;           // whose control message has not gone or come
  Control control;
  bool has_control = false;
  std::array<Request, kRequests> requests;
};

struct Listener {
  int fd = -1;
  std::uint64_t nonce = 0;
  std::vector<std::pair<int, Hello>> greeting;                      // their hello is not complete
  std::map<std::uint64_t, std::vector<std::pair<int, Hello>>> met;  // by connection
};

std::size_t data_sockets() {
  const char* const text = std::getenv("PLAIN_TCP_SOCKETS");
  return text == nullptr ? 1 : static_cast<std::size_t>(std::clamp(std::atoi(text), 1, 16));
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  static_cast<void>(::getrandom(&value, sizeof(value), 0));
  return value;
}

void make_ready(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Bytes moved, 0 when it would block, -1 when the connection is over.
ssize_t move(int fd, bool is_send, char* data, std::size_t bytes) {
  const ssize_t moved = is_send ? ::send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : ::recv(fd, data, bytes, MSG_DONTWAIT);
  if (moved > 0) return moved;
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return -1;
}

void cut(Comm& comm, Request& request) {
  const std::size_t sockets = comm.sockets.size() - 1;
  const std::size_t piece = std::max(kShortestPiece, (request.bytes + sockets - 1) / sockets);
  std::size_t socket = 1;
  for (std::size_t at = 0; at < request.bytes; at += piece) {
    comm.pieces[socket].push_back(
        {&request, request.data + at, std::min(piece, request.bytes - at)});
    ++request.pieces_left;
    socket = socket == sockets ? 1 : socket + 1;
  }
}

void begin_control(Comm& comm, const Request& request) {
  comm.control = {};
  const auto bytes = static_cast<std::uint32_t>(request.bytes);
  if (request.is_send) {
    std::memcpy(comm.control.bytes.data(), &bytes, sizeof(bytes));
    if (bytes <= kInlineBytes) {
      std::memcpy(comm.control.bytes.data() + sizeof(bytes), request.data, bytes);
      comm.control.length += bytes;
    }
  }
  comm.has_control = true;
}

// Whether the control message of the oldest request went or came as a whole.
bool move_control(Comm& comm, Request& request) {
  if (!comm.has_control) begin_control(comm, request);
  Control& control = comm.control;
  while (control.done < control.length) {
    const ssize_t moved = move(comm.sockets[0], request.is_send,
                               control.bytes.data() + control.done, control.length - control.done);
    if (moved < 0) comm.is_failed = true;
    if (moved <= 0) return false;
    control.done += static_cast<std::size_t>(moved);
    if (request.is_send || control.done != sizeof(std::uint32_t)) continue;
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, control.bytes.data(), sizeof(bytes));
    if (bytes > request.bytes) {
      comm.is_failed = true;  // longer than its receive
      return false;
    }
    request.bytes = bytes;
    if (bytes <= kInlineBytes) control.length += bytes;
  }
  return true;
}

void progress(Comm& comm) {
  while (!comm.waiting.empty() && !comm.is_failed) {
    Request& request = *comm.waiting.front();
    if (!move_control(comm, request)) break;
    comm.has_control = false;
    comm.waiting.pop_front();
    if (request.bytes > kInlineBytes) {
      cut(comm, request);
      continue;
    }
    if (!request.is_send)
      std::memcpy(request.data, comm.control.bytes.data() + sizeof(std::uint32_t), request.bytes);
    request.is_done = true;
  }
  for (std::size_t i = 1; i < comm.sockets.size() && !comm.is_failed; ++i) {
    while (!comm.pieces[i].empty()) {
      Piece& piece = comm.pieces[i].front();
      const ssize_t moved = move(comm.sockets[i], piece.request->is_send, piece.data, piece.bytes);
      if (moved < 0) comm.is_failed = true;
      if (moved <= 0) break;
      piece.data += moved;
      piece.bytes -= static_cast<std::size_t>(moved);
      if (piece.bytes != 0) continue;
      if (--piece.request->pieces_left == 0) piece.request->is_done = true;
      comm.pieces[i].pop_front();
    }
  }
}

NcclResult post(void* of, void* data, std::size_t bytes, bool is_send, void** out) {
  auto& comm = *static_cast<Comm*>(of);
  *out = nullptr;
  if (comm.is_failed) return kRemoteError;
  for (Request& request : comm.requests) {
    if (request.is_used) continue;
    request = {.is_used = true,
               .is_send = is_send,
               .comm = &comm,
               .data = static_cast<char*>(data),
               .bytes = bytes};
    comm.waiting.push_back(&request);
    progress(comm);
    *out = &request;
    return kSuccess;
  }
  return kSuccess;
}

NcclResult init(Logger /*logger*/) {
  return kSuccess;
}

NcclResult devices(int* count) {
  *count = 1;
  return kSuccess;
}

NcclResult get_properties(int /*device*/, PropertiesV8* out) {
  static char name[] = "plain_tcp";
  *out = {.name = name,
          .pciPath = nullptr,
          .guid = 1,
          .ptrSupport = kPtrHost,
          .regIsGlobal = 1,
          .speed = 10000,
          .port = 0,
          .latency = 0,
          .maxComms = 65536,
          .maxRecvs = 1,
          .netDeviceType = 0,
          .netDeviceVersion = 0};
  return kSuccess;
}

NcclResult listen_at(int /*device*/, void* handle, void** listen_comm) {
  auto listener = std::make_unique<Listener>();
  Handle out;
  out.address.sin_family = AF_INET;
  out.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  listener->fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t length = sizeof(out.address);
  auto* address = reinterpret_cast<sockaddr*>(&out.address);
  if (::bind(listener->fd, address, length) != 0 || ::listen(listener->fd, SOMAXCONN) != 0 ||
      ::getsockname(listener->fd, address, &length) != 0)
    return kSystemError;
  out.nonce = listener->nonce = random_number();
  std::memcpy(handle, &out, sizeof(out));
  *listen_comm = listener.release();
  return kSuccess;
}

NcclResult connect_to(int /*device*/, void* handle, void** send_comm, DeviceHandle** /*dev*/) {
  Handle to;
  std::memcpy(&to, handle, sizeof(to));
  *send_comm = nullptr;
  if (to.magic != kMagic) return kInvalidArgument;
  auto comm = std::make_unique<Comm>();
  Hello hello;
  hello.nonce = to.nonce;
  hello.connection = random_number();
  hello.count = static_cast<std::uint32_t>(data_sockets() + 1);
  for (hello.index = 0; hello.index < hello.count; ++hello.index) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&to.address), sizeof(to.address)) != 0 ||
        ::send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
      return kSystemError;
    make_ready(fd);
    comm->sockets.push_back(fd);
  }
  comm->pieces.resize(comm->sockets.size());
  *send_comm = comm.release();
  return kSuccess;
}

// Takes what has come; strangers are hung up on.
void greet(Listener& listener) {
  for (int fd = ::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC); fd >= 0;
       fd = ::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC)) {
    make_ready(fd);
    listener.greeting.emplace_back(fd, Hello{});
  }
  for (auto it = listener.greeting.begin(); it != listener.greeting.end();) {
    Hello hello;
    const ssize_t there = ::recv(it->first, &hello, sizeof(hello), MSG_DONTWAIT | MSG_PEEK);
    if (there < 0 && errno == EAGAIN) {
      ++it;
      continue;
    }
    const bool is_whole = there == sizeof(hello);
    if (is_whole) static_cast<void>(::recv(it->first, &hello, sizeof(hello), MSG_DONTWAIT));
    if (is_whole && hello.magic == kMagic && hello.nonce == listener.nonce)
      listener.met[hello.connection].emplace_back(it->first, hello);
    else
      ::close(it->first);
    it = listener.greeting.erase(it);
  }
}

NcclResult accept_one(void* listen_comm, void** recv_comm, DeviceHandle** /*dev*/) {
  auto& listener = *static_cast<Listener*>(listen_comm);
  *recv_comm = nullptr;
  greet(listener);
  for (auto& [connection, sockets] : listener.met) {
    if (sockets.size() != sockets.front().second.count) continue;
    auto comm = std::make_unique<Comm>();
    comm->sockets.resize(sockets.size());
    comm->pieces.resize(sockets.size());
    for (const auto& [fd, hello] : sockets)
      comm->sockets[hello.index % sockets.size()] = fd;
    listener.met.erase(connection);
    *recv_comm = comm.release();
    return kSuccess;
  }
  return kSuccess;
}

NcclResult register_memory(void* /*comm*/, void* /*data*/, std::size_t /*bytes*/, int type,
                           void** handle) {
  *handle = nullptr;
  return type == kPtrHost ? kSuccess : kInvalidUsage;
}

NcclResult register_dma_buf(void* /*comm*/, void* /*data*/, std::size_t /*bytes*/, int /*type*/,
                            std::uint64_t /*offset*/, int /*fd*/, void** /*handle*/) {
  return kInvalidUsage;
}

NcclResult deregister_memory(void* /*comm*/, void* /*handle*/) {
  return kSuccess;
}

NcclResult isend(void* comm, void* data, int bytes, int /*tag*/, void* /*handle*/, void** request) {
  return post(comm, data, static_cast<std::size_t>(bytes), true, request);
}

NcclResult irecv(void* comm, int count, void** data, int* sizes, int* /*tags*/, void** /*handles*/,
                 void** request) {
  if (count != 1) return kInvalidUsage;
  return post(comm, data[0], static_cast<std::size_t>(sizes[0]), false, request);
}

NcclResult iflush(void* /*comm*/, int /*n*/, void** /*data*/, int* /*sizes*/, void** /*handles*/,
                  void** request) {
  *request = nullptr;
  return kSuccess;
}

NcclResult test(void* of, int* done, int* sizes) {
  auto& request = *static_cast<Request*>(of);
  *done = 0;
  if (!request.is_done) progress(*request.comm);
  if (!request.is_done) return request.comm->is_failed ? kRemoteError : kSuccess;
  *done = 1;
  if (sizes != nullptr) *sizes = static_cast<int>(request.bytes);
  request.is_used = false;
  return kSuccess;
}

NcclResult close_comm(void* of) {
  const std::unique_ptr<Comm> comm(static_cast<Comm*>(of));
  if (comm == nullptr) return kSuccess;
  for (const int fd : comm->sockets)
    ::close(fd);
  return kSuccess;
}

NcclResult close_listen(void* of) {
  const std::unique_ptr<Listener> listener(static_cast<Listener*>(of));
  if (listener == nullptr) return kSuccess;
  for (const auto& [fd, hello] : listener->greeting)
    ::close(fd);
  ::close(listener->fd);
  return kSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const NetV8 ncclNetPlugin_v8 = {  // NOLINT
    .name = "plain_tcp",
    .init = init,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_at,
    .connect = connect_to,
    .accept = accept_one,
    .regMr = register_memory,
    .regMrDmaBuf = register_dma_buf,
    .deregMr = deregister_memory,
    .isend = isend,
    .irecv = irecv,
    .iflush = iflush,
    .test = test,
    .closeSend = close_comm,
    .closeRecv = close_comm,
    .closeListen = close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr};
