#pragma once
// How connections come about, never blocking: a Listener waits for requests with its nonce, an
// Attempt makes one, over shared memory first where both ends are on one host.
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/nccl/comm.h"
#include "plugins/nccl/handle.h"

namespace spindrift::nccl {

class Listener final : public Caller {
 public:
  // Fills `handle` (kHandleBytes). Errors are sentences.
  static Result<std::unique_ptr<Listener>> open(Context& context, int device, void* handle);
  ~Listener() override;
  // Null: not yet.
  std::unique_ptr<RecvComm> accept();
  void on_request(Engine& engine, ConnId conn, std::vector<std::byte> mailbox) override;

 private:
  struct Caller {
    Engine* engine = nullptr;
    ConnId conn{};
    std::vector<std::byte> mailbox;
  };
  Listener(Context& context, int device);
  void listen_on(Engine& engine);
  void take_next();

  Context& context_;
  const int device_;
  std::uint64_t nonce_ = 0;
  std::vector<Engine*> engines_;
  std::mutex mutex_;  // of waiting_, which any thread that runs an engine fills
  std::deque<Caller> waiting_;
  std::unique_ptr<RecvComm> opening_;
};

class Attempt {
 public:
  static Result<std::unique_ptr<Attempt>> start(Context& context, int device, const Handle& handle,
                                                int traffic_class);
  ~Attempt();
  std::uint64_t nonce() const { return handle_.nonce; }
  // Null: not yet. Errors are sentences; the attempt is over then.
  Result<std::unique_ptr<SendComm>> step();

 private:
  Attempt(Context& context, int device, Handle handle, int traffic_class);
  Status start_over(Context::Medium over, const std::string& address);
  Status start_network();
  void drop();

  Context& context_;
  const int device_;
  const Handle handle_;
  const int traffic_class_;
  bool is_over_shm_ = false;
  std::unique_ptr<SendComm> comm_;
};

// Ends a connection and gives its engine back; the comm is gone afterwards.
void end_comm(std::unique_ptr<Comm> comm);

}  // namespace spindrift::nccl
