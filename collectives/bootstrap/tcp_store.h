#pragma once
// A store over TCP: one process serves, all ranks are clients. For trusted networks, like the
// transport itself; a stranger can fill it or read it, but not crash it.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "spindrift/collective.h"

namespace spindrift::collectives {

// Serves in a thread of its own until destroyed.
class TcpStoreServer final {
 public:
  // "10.0.0.1:29400", "[::]:29400"; port 0 picks one.
  static Result<std::unique_ptr<TcpStoreServer>> start(std::string_view address);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // With the port in use.
  const std::string& address() const { return address_; }

 private:
  class Loop;
  TcpStoreServer(std::unique_ptr<Loop> loop, std::string address);

  std::unique_ptr<Loop> loop_;
  std::string address_;
  std::thread thread_;
};

// One thread at a time.
class TcpStore final : public Store {
 public:
  // Tries until somebody serves at `address`, at most `timeout`.
  static Result<std::unique_ptr<TcpStore>> connect(std::string_view address, Duration timeout);
  // Once.
  static Result<std::unique_ptr<TcpStore>> try_connect(std::string_view address, Time deadline);
  ~TcpStore() override;
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Duration timeout) override;
  Result<std::int64_t> add(std::string_view key, std::int64_t amount) override;

  // This host's address on the way to the server, without a port: what peers can reach it by.
  std::string local_host() const;

 private:
  struct Reply;
  TcpStore(std::string address, int fd) : address_(std::move(address)), fd_(fd) {}
  Result<Reply> ask(std::uint8_t operation, std::string_view key, std::string_view value,
                    std::int64_t number, Duration timeout);
  Status send_all(std::string_view bytes, Time deadline);
  Status receive_all(char* to, std::size_t count, Time deadline);
  Status reconnect(Time deadline);
  Error lost(std::string_view what);

  std::string address_;
  int fd_ = -1;
};

}  // namespace spindrift::collectives
