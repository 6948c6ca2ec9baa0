#pragma once
// The connection by which the two sides of a connection find each other, and by which each hears of
// the other's end: a stream of bytes by TCP, or by a queue pair that rdma_cm connects. Nothing here
// blocks. Internal to providers/verbs.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/result.h"

#include "providers/verbs/tcp_socket.h"

namespace spindrift {

class VerbsTalk {
 public:
  virtual ~VerbsTalk() = default;
  // Readable when dialing has come further, and later when there is something to receive.
  virtual int fd() const = 0;
  // Of one that was dialed: whether it is connected; an error: it never will be.
  virtual Result<bool> is_dialed() = 0;
  // Of this host, as the other side has it; port 0.
  virtual NetAddress local() const = 0;
  // All of them or none: what is sent here is little, and comes seldom.
  virtual bool send(std::span<const std::byte> bytes) = 0;
  // Appends what there is; until it says kNothing or kEnd, there may be more.
  virtual TcpGot receive(std::vector<std::byte>& out) = 0;
};

class VerbsListener {
 public:
  virtual ~VerbsListener() = default;
  virtual int fd() const = 0;
  struct Caller {
    std::unique_ptr<VerbsTalk> talk{};  // null: nobody has called
    NetAddress from{};
  };
  virtual Caller accept() = 0;
};

// Port 0: a free one; `local` says which afterwards.
Result<std::unique_ptr<VerbsListener>> listen_by_tcp(NetAddress& local);
Result<std::unique_ptr<VerbsTalk>> dial_by_tcp(const NetAddress& remote);
// librdmacm is loaded by the first call; without it they are kUnsupported, with what is missing.
Result<std::unique_ptr<VerbsListener>> listen_by_rdma_cm(NetAddress& local);
Result<std::unique_ptr<VerbsTalk>> dial_by_rdma_cm(const NetAddress& remote);

}  // namespace spindrift
