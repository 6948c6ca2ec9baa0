#include "providers/shm/shm_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "providers/shm/shm_names.h"

namespace spindrift {
namespace {

Error refused(const std::string& path, const char* hint) {
  const int error = errno;
  return Error(error == ENOENT || error == ECONNREFUSED ? ErrorCode::kNotFound : ErrorCode::kIo,
               path + ": " + std::system_category().message(error) + hint);
}

sockaddr_un to_socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd open_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool try_bind(int fd, const sockaddr_un& address) {
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Takes the one descriptor that may come along; others are closed.
UniqueFd take_descriptor(msghdr& message) {
  UniqueFd taken;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      UniqueFd one(fd);
      if (!taken.is_open()) taken = std::move(one);
    }
  }
  return taken;
}

bool is_sound(const ShmGreeting& greeting, std::size_t bytes) {
  return bytes == sizeof(ShmGreeting) && greeting.magic == ShmGreeting::kMagic &&
         greeting.kind >= ShmGreetingKind::kCall && greeting.kind <= ShmGreetingKind::kNoUse &&
         greeting.hello_bytes <= kFabricHelloBytes;
}

}  // namespace

void ShmGreeting::set_hello(std::span<const std::byte> bytes) {
  hello_bytes = static_cast<std::uint32_t>(std::min(bytes.size(), hello.size()));
  std::copy_n(bytes.begin(), hello_bytes, hello.begin());
}

Result<std::string> shm_socket_path(std::string_view address) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  std::string path(address);
  if (!address.starts_with('/')) {
    if (address.empty() || address.find('/') != std::string_view::npos)
      return Error(ErrorCode::kInvalidArgument,
                   "shm://" + path +
                       " is neither a name nor an absolute path; write shm://name or "
                       "shm:///run/app/socket");
    path = std::string(kShmFolder) + "/" + std::string(kShmPrefix) + path;
  }
  if (path.size() > kLongest)
    return Error(ErrorCode::kInvalidArgument,
                 path + " is too long for a socket: " + std::to_string(path.size()) +
                     " bytes, at most " + std::to_string(kLongest));
  return path;
}

Result<UniqueFd> listen_shm(const std::string& path) {
  UniqueFd fd = open_socket();
  if (!fd.is_open()) return refused(path, "");
  const sockaddr_un address = to_socket_address(path);
  bool is_bound = try_bind(fd.get(), address);
  if (!is_bound && errno == EADDRINUSE) {
    const bool is_free = is_left_behind(path);
    if (is_free) ::unlink(path.c_str());
    is_bound = try_bind(fd.get(), address);
  }
  if (!is_bound) {
    if (errno == EADDRINUSE)
      return refused(path,
                     "; another process listens there, or it is no socket: choose another name");
    return refused(path, "; the folder must exist and let this process write");
  }
  if (::listen(fd.get(), SOMAXCONN) != 0) return refused(path, "");
  return fd;
}

Result<UniqueFd> connect_shm(const std::string& path) {
  UniqueFd fd = open_socket();
  if (!fd.is_open()) return refused(path, "");
  const sockaddr_un address = to_socket_address(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
      return refused(path, "; no process of this host listens there");
    case EACCES:
      return refused(path, "; this process may not write to that socket");
    case EAGAIN:
      return refused(path, "; too many callers wait there already");
    default:
      return refused(path, "");
  }
}

Status send_greeting(int socket, const ShmGreeting& greeting, int fd) {
  iovec data{.iov_base = const_cast<ShmGreeting*>(&greeting), .iov_len = sizeof(greeting)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof(int));
  }
  if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(greeting))
    return ok_status();
  return Error(ErrorCode::kIo, "telling the peer: " + std::system_category().message(errno));
}

void send_wake_up(int socket) {
  const std::byte one{};
  // A full socket is readable already, and a dead one wakes by its end.
  static_cast<void>(::send(socket, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ShmReceived receive_greeting(int socket) {
  ShmReceived out;
  iovec data{.iov_base = &out.greeting, .iov_len = sizeof(out.greeting)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) {
    const bool is_nothing = errno == EAGAIN || errno == EINTR;
    out.kind = is_nothing ? ShmReceived::Kind::kNothing : ShmReceived::Kind::kEnd;
    return out;
  }
  out.fd = take_descriptor(message);
  if (bytes == 0)
    out.kind = ShmReceived::Kind::kEnd;
  else if (bytes == 1)
    out.kind = ShmReceived::Kind::kWakeUp;
  else if (is_sound(out.greeting, static_cast<std::size_t>(bytes)))
    out.kind = ShmReceived::Kind::kGreeting;
  else
    out.kind = ShmReceived::Kind::kNonsense;
  return out;
}

pid_t peer_process(int socket) {
  ucred who{};
  socklen_t bytes = sizeof(who);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 ? who.pid : 0;
}

}  // namespace spindrift
