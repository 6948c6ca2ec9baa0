#include "transport/endpoint_waiter.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace spindrift {
namespace {

Error system_refused(const char* what) {
  return Error(ErrorCode::kIo, std::string(what) + ": " + std::generic_category().message(errno) +
                                   " (RLIMIT_NOFILE too low? see ulimit -n)");
}

bool add(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void close_if_open(int fd) {
  if (fd >= 0) ::close(fd);
}

}  // namespace

EndpointWaiter::~EndpointWaiter() {
  close_if_open(epoll_fd_);
  close_if_open(timer_fd_);
  close_if_open(event_fd_);
}

Status EndpointWaiter::open() {
  if (epoll_fd_ >= 0) return ok_status();
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  event_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_fd_ < 0 || timer_fd_ < 0 || event_fd_ < 0) return system_refused("epoll, timerfd");
  if (!add(epoll_fd_, timer_fd_) || !add(epoll_fd_, event_fd_)) return system_refused("epoll_ctl");
  return ok_status();
}

Status EndpointWaiter::watch(const std::vector<int>& provider_fds) {
  Status opened = open();
  if (!opened.ok()) return opened;
  if (provider_fds == watched_) return ok_status();
  for (const int fd : provider_fds) {
    if (std::find(watched_.begin(), watched_.end(), fd) != watched_.end()) continue;
    if (!add(epoll_fd_, fd)) return system_refused("epoll_ctl");
  }
  watched_ = provider_fds;
  return ok_status();
}

void EndpointWaiter::set_deadline(Time deadline, Time now) const {
  itimerspec spec{};
  if (deadline != kNever) {
    const std::int64_t left = std::max<std::int64_t>((deadline - now).count(), 1);
    spec.it_value.tv_sec = left / 1'000'000'000;
    spec.it_value.tv_nsec = left % 1'000'000'000;
  }
  ::timerfd_settime(timer_fd_, 0, &spec, nullptr);
}

void EndpointWaiter::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof(one));
}

void EndpointWaiter::drain() const {
  std::uint64_t count = 0;
  [[maybe_unused]] auto got = ::read(event_fd_, &count, sizeof(count));
  got = ::read(timer_fd_, &count, sizeof(count));
}

bool EndpointWaiter::sleep(Duration timeout) const {
  pollfd waiting{.fd = epoll_fd_, .events = POLLIN, .revents = 0};
  timespec spec{};
  spec.tv_sec = timeout.count() / 1'000'000'000;
  spec.tv_nsec = timeout.count() % 1'000'000'000;
  return ::ppoll(&waiting, 1, timeout < Duration{} ? nullptr : &spec, nullptr) > 0;
}

}  // namespace spindrift
