#include "spindrift/endpoint.h"
#include "spindrift/work.h"

namespace spindrift {

std::string_view to_string(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
    case OpKind::kWrite:
      return "write";
    case OpKind::kWriteImm:
      return "write with immediate";
    case OpKind::kRead:
      return "read";
    case OpKind::kFetchAdd:
      return "fetch-add";
    case OpKind::kCompareSwap:
      return "compare-swap";
  }
  return "unknown operation";
}

std::string_view to_string(OpStatus status) {
  switch (status) {
    case OpStatus::kOk:
      return "ok";
    case OpStatus::kTimedOut:
      return "timed out";
    case OpStatus::kPeerGone:
      return "peer gone";
    case OpStatus::kRemoteKey:
      return "remote key unknown";
    case OpStatus::kRemoteAccess:
      return "remote access denied";
    case OpStatus::kRemoteBounds:
      return "outside the remote region";
    case OpStatus::kRemoteAlignment:
      return "remote address not aligned";
    case OpStatus::kRemoteLength:
      return "longer than the peer's receive";
    case OpStatus::kRemoteUnsupported:
      return "unsupported by the peer";
    case OpStatus::kLocalLength:
      return "receive too short";
    case OpStatus::kFlushed:
      return "flushed";
  }
  return "unknown status";
}

std::string_view to_string(ConnState state) {
  switch (state) {
    case ConnState::kConnecting:
      return "connecting";
    case ConnState::kRequested:
      return "requested";
    case ConnState::kOpen:
      return "open";
    case ConnState::kDraining:
      return "draining";
    case ConnState::kClosed:
      return "closed";
    case ConnState::kFailed:
      return "failed";
  }
  return "unknown state";
}

}  // namespace spindrift
