// Names of collectives, element types and operations.
#include <array>
#include <string>

#include "spindrift/collective.h"

namespace spindrift {
namespace {

constexpr std::array kCollectives{
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kAllToAll,
    Collective::kAllToAllV, Collective::kGather,        Collective::kScatter,
    Collective::kBarrier,   Collective::kSendReceive};

// "allreduce" and "all_reduce" are one name.
std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '_') out += c;
  return out;
}

}  // namespace

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kAllToAllV:
      return "all_to_all_v";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kSendReceive:
      return "send_receive";
  }
  return "unknown";
}

std::span<const Collective> all_collectives() {
  return kCollectives;
}

Result<Collective> collective_from_text(std::string_view text) {
  std::string names;
  for (const Collective collective : kCollectives) {
    const std::string_view name = to_string(collective);
    if (without_underscores(name) == without_underscores(text)) return collective;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return Error(ErrorCode::kInvalidArgument,
               "no collective \"" + std::string(text) + "\"; there are: " + names);
}

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float";
    case DataType::kFloat64:
      return "double";
    case DataType::kFloat16:
      return "half";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kInt8:
      return "int8";
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt16:
      return "int16";
    case DataType::kUint16:
      return "uint16";
    case DataType::kInt32:
      return "int32";
    case DataType::kUint32:
      return "uint32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint64:
      return "uint64";
  }
  return "unknown";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "prod";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "avg";
  }
  return "unknown";
}

std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt16:
    case DataType::kUint16:
      return 2;
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
    case DataType::kUint64:
      return 8;
  }
  return 1;
}

}  // namespace spindrift
