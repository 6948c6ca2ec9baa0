#include <cerrno>
#include <system_error>

#include "providers/verbs/verbs_talk.h"

namespace spindrift {
namespace {

class TcpTalk final : public VerbsTalk {
 public:
  explicit TcpTalk(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  Result<bool> is_dialed() override {
    const int error = dial_error(socket_.get());
    if (error == 0) return true;
    return Error(ErrorCode::kUnavailable,
                 "nothing answers there (TCP): " + std::generic_category().message(error));
  }
  NetAddress local() const override { return local_address(socket_.get()); }
  bool send(std::span<const std::byte> bytes) override { return send_tcp(socket_.get(), bytes); }
  TcpGot receive(std::vector<std::byte>& out) override { return receive_tcp(socket_.get(), out); }

 private:
  UniqueFd socket_;
};

class TcpListener final : public VerbsListener {
 public:
  explicit TcpListener(UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  Caller accept() override {
    TcpCaller caller = accept_tcp(socket_.get());
    if (!caller.socket.is_open()) return {};
    return {.talk = std::make_unique<TcpTalk>(std::move(caller.socket)), .from = caller.from};
  }

 private:
  UniqueFd socket_;
};

}  // namespace

Result<std::unique_ptr<VerbsListener>> listen_by_tcp(NetAddress& local) {
  auto socket = listen_tcp(local);
  if (!socket.ok()) return socket.error();
  return std::unique_ptr<VerbsListener>(std::make_unique<TcpListener>(std::move(socket).value()));
}

Result<std::unique_ptr<VerbsTalk>> dial_by_tcp(const NetAddress& remote) {
  auto socket = dial_tcp(remote);
  if (!socket.ok()) return socket.error();
  return std::unique_ptr<VerbsTalk>(std::make_unique<TcpTalk>(std::move(socket).value()));
}

}  // namespace spindrift
