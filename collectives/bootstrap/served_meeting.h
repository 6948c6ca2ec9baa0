#pragma once
// Both ends of a meeting: rank 0's store, and the way to it.
#include <memory>
#include <string_view>

#include "collectives/bootstrap/tcp_store.h"
#include "collectives/bootstrap/unique_id.h"

namespace spindrift::collectives {

class ServedMeeting final : public Rendezvous {
 public:
  // Where `host` is empty, others find it by all of this host's addresses.
  static Result<std::unique_ptr<ServedMeeting>> serve(std::string_view host);
  // At the first address of the meeting that is free.
  static Result<std::unique_ptr<ServedMeeting>> serve_at(const Meeting& meeting);

  UniqueId id() const override { return to_id(meeting_); }
  const Meeting& meeting() const { return meeting_; }

 private:
  ServedMeeting(std::unique_ptr<TcpStoreServer> server, Meeting meeting)
      : server_(std::move(server)), meeting_(std::move(meeting)) {}
  static Result<std::unique_ptr<ServedMeeting>> open(std::unique_ptr<TcpStoreServer> server,
                                                     Meeting meeting);

  std::unique_ptr<TcpStoreServer> server_;
  Meeting meeting_;
};

// Tries every address once. The error is of the last one tried.
Result<std::unique_ptr<TcpStore>> go_to(const Meeting& meeting, Time deadline);

}  // namespace spindrift::collectives
