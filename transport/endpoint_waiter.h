#pragma once
// Sleeping until the provider, a deadline or the guardian has something: one epoll descriptor.
#include <vector>

#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

class EndpointWaiter {
 public:
  EndpointWaiter() = default;
  EndpointWaiter(const EndpointWaiter&) = delete;
  EndpointWaiter& operator=(const EndpointWaiter&) = delete;
  ~EndpointWaiter();

  // Rebuilds the set when the provider's descriptors changed (a rail was added).
  Status watch(const std::vector<int>& provider_fds);
  int fd() const { return epoll_fd_; }
  void set_deadline(Time deadline, Time now) const;
  // Makes fd() readable until drain(). Callable from another thread.
  void wake() const;
  void drain() const;
  // True when readable before `timeout` (negative: no limit) has passed.
  bool sleep(Duration timeout) const;

 private:
  Status open();
  int epoll_fd_ = -1;
  int timer_fd_ = -1;
  int event_fd_ = -1;
  std::vector<int> watched_;
};

}  // namespace spindrift
