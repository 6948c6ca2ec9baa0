#include "tests/e2e/surviving_partner.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/counter_snapshot.h"

#include "tests/e2e/mortal_peer.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::Each;

std::byte pattern(std::size_t i) {
  return static_cast<std::byte>(i * 2654435761U >> 13U);
}

}  // namespace

SurvivingPartner::SurvivingPartner(const std::string& peer_open, const std::string& own_open,
                                   const OpenOptions& options)
    : peer_({MORTAL_PEER, "serve", "0", peer_open}), memory_(kPeerMemory) {
  endpoint_ = open_endpoint(own_open, options).value();
  region_ = endpoint_->register_memory(memory_, kAllAccess).value();
  address_ = peer_.line();
}

bool SurvivingPartner::connect(const ConnectOptions& options) {
  const auto conn = connect_and_wait(*endpoint_, address_, options);
  EXPECT_TRUE(conn.ok()) << (conn.ok() ? "" : conn.error().message());
  if (!conn.ok()) return false;
  conn_ = conn.value();
  target_ = RemoteRegion::deserialize(endpoint_->info(conn_).value().private_data).value();
  return true;
}

void SurvivingPartner::post(OpKind kind, std::uint32_t bytes) {
  const bool is_atomic = kind == OpKind::kFetchAdd;
  const Sge piece = sge_of(region_, 0, is_atomic ? 8 : bytes);
  const WorkRequest work{.user_data = posted_,
                         .conn = conn_,
                         .kind = kind,
                         .local = {&piece, 1},
                         .remote_key = target_.key,
                         .operand = 1};
  posted_ += endpoint_->post({&work, 1}).accepted;
}

std::vector<OpStatus> SurvivingPartner::wait_all(Duration limit) {
  std::vector<OpStatus> out;
  while (out.size() < posted_) {
    const auto done = wait_completion(*endpoint_, limit);
    if (!done.ok()) break;
    out.push_back(done.value().status);
  }
  posted_ -= out.size();
  return out;
}

void SurvivingPartner::check_transfer(std::uint32_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    memory_[i] = pattern(i);
  post(OpKind::kWrite, bytes);
  EXPECT_THAT(wait_all(10s), Each(OpStatus::kOk)) << endpoint_->last_error(conn_);
  std::fill(memory_.begin(), memory_.end(), std::byte{0});
  post(OpKind::kRead, bytes);
  EXPECT_THAT(wait_all(10s), Each(OpStatus::kOk)) << endpoint_->last_error(conn_);
  bool is_equal = true;
  for (std::size_t i = 0; i < bytes; ++i)
    is_equal = is_equal && memory_[i] == pattern(i);
  EXPECT_TRUE(is_equal) << bytes;
}

std::uint64_t SurvivingPartner::counter(std::string_view name) const {
  CounterSnapshot counters;
  endpoint_->counters(counters);
  return counters.value(name);
}

}  // namespace spindrift
