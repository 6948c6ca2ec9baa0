#include "providers/verbs/datagram_neighbors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <sys/socket.h>

// After the socket headers: it needs their types.
#include <linux/errqueue.h>

#include "providers/verbs/flow_label.h"
#include "providers/verbs/socket_address.h"
#include "transport/base/random.h"

namespace spindrift {
namespace {

constexpr Duration kFirstAsk = std::chrono::milliseconds(20);
constexpr Duration kAskAgain = std::chrono::seconds(1);  // one that is in use
constexpr Duration kUnused = std::chrono::seconds(60);   // is forgotten
constexpr std::uint32_t kQuestions = 25;                 // before one is given up
constexpr std::size_t kMostNeighbors = 65536;            // strangers make no more
constexpr std::size_t kMostQueuePairs = 4096;            // ... nor more of these
constexpr std::size_t kDatagramsAtOnce = 32;
constexpr Duration kBetweenMendings = std::chrono::milliseconds(10);

}  // namespace

DatagramNeighbors::~DatagramNeighbors() {
  for (auto& [place, neighbor] : neighbors_)
    forget_ways(*neighbor);
}

std::size_t DatagramNeighbors::HashPlace::operator()(const Place& place) const {
  std::uint64_t words[2];
  std::memcpy(words, place.address.ip.data(), sizeof(words));
  std::uint64_t mixed = words[0] * 0x9E3779B97F4A7C15ULL ^ words[1];
  mixed ^= std::uint64_t{place.address.port} << 16 | place.rail;
  mixed *= 0xD6E8FEB86659FD93ULL;
  return mixed ^ mixed >> 32;
}

void DatagramNeighbors::forget_ways(DatagramNeighbor& neighbor) {
  for (const DatagramNeighbor::Way& way : neighbor.ways)
    ibv_destroy_ah(way.handle);
  neighbor.ways.clear();
}

DatagramNeighbor& DatagramNeighbors::add(std::uint16_t number, const NetAddress& address,
                                         DatagramRail& rail) {
  auto& holder = neighbors_[{.rail = number, .address = address}];
  if (!holder) {
    holder = std::make_unique<DatagramNeighbor>();
    holder->address = address;
    holder->rail = number;
    make_lanes(*holder, rail);
  }
  return *holder;
}

// As many as the device gives, of those that the options ask for.
void DatagramNeighbors::make_lanes(DatagramNeighbor& neighbor, DatagramRail& rail) {
  neighbor.label_base = random_u64();
  while (neighbor.lanes.size() < rail.lanes()) {
    auto lane = rail.make_lane();
    if (!lane.ok()) return;
    senders_[sender_key(neighbor.rail, lane.value()->queue_pair())] = {
        .neighbor = &neighbor, .lane = static_cast<std::uint16_t>(neighbor.lanes.size())};
    neighbor.lanes.push_back(std::move(lane).value());
  }
}

DatagramCard DatagramNeighbors::card_for(const DatagramNeighbor& neighbor,
                                         const DatagramRail& rail) {
  DatagramCard card = rail.card();
  for (const auto& lane : neighbor.lanes)
    card.lanes.push_back(lane->queue_pair());
  return card;
}

void DatagramNeighbors::ask(DatagramNeighbor& neighbor, const DatagramRail& rail, Time now) {
  DatagramCard card = card_for(neighbor, rail);
  if (neighbor.nonce == 0) neighbor.nonce = random_u64() | 1;
  card.nonce = neighbor.nonce;
  const auto bytes = encode(card);
  SocketAddress to = to_socket_address(neighbor.address);
  // What gets lost is asked again.
  static_cast<void>(
      ::sendto(rail.socket(), bytes.data(), bytes.size(), MSG_DONTWAIT, to.get(), to.bytes));
  neighbor.asked = now;
  ++neighbor.questions;
}

DatagramNeighbor& DatagramNeighbors::find(std::uint16_t rail, const NetAddress& address,
                                          std::span<const std::unique_ptr<DatagramRail>> rails,
                                          Time now) {
  if (last_ == nullptr || last_->rail != rail || last_->address != address) {
    last_ = &add(rail, address, *rails[rail]);
    if (!last_->is_known && last_->questions == 0) ask(*last_, *rails[rail], now);
  }
  last_->used = now;
  return *last_;
}

DatagramNeighbors::Sender DatagramNeighbors::sender(std::uint16_t rail,
                                                    std::uint32_t queue_pair) const {
  const auto found = senders_.find(sender_key(rail, queue_pair));
  return found == senders_.end() ? Sender{} : found->second;
}

void DatagramNeighbors::fail_lane(std::uint16_t rail, std::uint32_t queue_pair) const {
  const Sender found = sender(rail, queue_pair);
  if (found.neighbor != nullptr) found.neighbor->lanes[found.lane]->fail();
}

ibv_ah* DatagramNeighbors::way(DatagramNeighbor& neighbor, const DatagramRail& rail,
                               std::uint8_t traffic_class, std::uint8_t service_level) {
  for (const DatagramNeighbor::Way& way : neighbor.ways)
    if (way.traffic_class == traffic_class) return way.handle;
  ibv_ah_attr to{};
  to.port_num = rail.port().number();
  to.dlid = neighbor.card.lid;
  to.sl = service_level;
  to.is_global = 1;
  std::copy(neighbor.card.gid.begin(), neighbor.card.gid.end(), std::begin(to.grh.dgid.raw));
  to.grh.sgid_index = rail.gid_index();
  to.grh.hop_limit = 64;
  to.grh.traffic_class = traffic_class;
  ibv_ah* const handle = ibv_create_ah(rail.port().domain(), &to);
  if (handle != nullptr)
    neighbor.ways.push_back({.traffic_class = traffic_class, .handle = handle});
  return handle;
}

bool DatagramNeighbors::connect(DatagramNeighbor& neighbor, std::size_t lane, DatagramRail& rail) {
  const DatagramCard& theirs = neighbor.card;
  return rail
      .connect(
          *neighbor.lanes[lane],
          {.gid = theirs.gid,
           .lid = theirs.lid,
           .queue_pair = theirs.lanes[lane],
           .mtu = std::min(rail.port().mtu(), mtu_bytes(theirs.mtu)),
           .flow_label = rail.port().is_infiniband() ? 0 : flow_label(neighbor.label_base, lane),
           .gid_index = rail.gid_index()})
      .ok();
}

bool DatagramNeighbors::learn(DatagramNeighbor& neighbor, const DatagramCard& card,
                              DatagramRail& rail, Time now) {
  const bool is_same = neighbor.is_known && neighbor.card.queue_pair == card.queue_pair &&
                       neighbor.card.key == card.key && neighbor.card.gid == card.gid &&
                       neighbor.card.lid == card.lid && neighbor.card.lanes == card.lanes;
  neighbor.confirmed = now;
  if (is_same) return true;
  const bool is_shared = rail.lanes() == 0;
  if (neighbor.is_known && is_shared)
    senders_.erase(sender_key(neighbor.rail, neighbor.card.queue_pair));
  forget_ways(neighbor);
  neighbor.card = card;
  neighbor.is_known = true;
  if (is_shared) {
    senders_[sender_key(neighbor.rail, card.queue_pair)] = {.neighbor = &neighbor};
    return true;
  }
  neighbor.paths = std::min(neighbor.lanes.size(), card.lanes.size());
  for (std::size_t i = 0; i < neighbor.paths; ++i)
    neighbor.is_known = connect(neighbor, i, rail) && neighbor.is_known;
  neighbor.is_known = neighbor.is_known && neighbor.paths != 0;
  return neighbor.is_known;
}

// What its device gave up works again, from the next packet on.
void DatagramNeighbors::mend(DatagramNeighbor& neighbor, DatagramRail& rail, Time now) {
  if (!neighbor.is_known || now - neighbor.mended < kBetweenMendings) return;
  for (std::size_t i = 0; i < neighbor.paths; ++i) {
    if (!neighbor.lanes[i]->has_failed()) continue;
    neighbor.mended = now;
    if (connect(neighbor, i, rail))
      ++mended_;
    else
      neighbor.lanes[i]->fail();
  }
}

void DatagramNeighbors::answer(const DatagramNeighbor& neighbor, std::uint64_t nonce,
                               const DatagramRail& rail) {
  DatagramCard card = card_for(neighbor, rail);
  card.is_answer = true;
  card.nonce = nonce;
  const auto said = encode(card);
  SocketAddress to = to_socket_address(neighbor.address);
  static_cast<void>(
      ::sendto(rail.socket(), said.data(), said.size(), MSG_DONTWAIT, to.get(), to.bytes));
}

void DatagramNeighbors::hear(std::uint16_t rail, DatagramRail& own, Time now,
                             std::vector<DatagramNeighbor*>& known, std::vector<IoError>& errors) {
  for (std::size_t i = 0; i < kDatagramsAtOnce; ++i) {
    std::array<std::byte, kMaxDatagramCardBytes + 1> bytes{};
    SocketAddress from;
    const ssize_t count =
        ::recvfrom(own.socket(), bytes.data(), bytes.size(), MSG_DONTWAIT, from.get(), &from.bytes);
    if (count < 0) break;
    const auto card = parse_datagram_card(std::span(bytes).first(static_cast<std::size_t>(count)));
    if (!card) continue;
    const NetAddress address = to_net_address(from);
    const bool is_known = neighbors_.contains({.rail = rail, .address = address});
    const bool is_full =
        neighbors_.size() >= kMostNeighbors || neighbors_.size() * own.lanes() >= kMostQueuePairs;
    if (!is_known && (card->is_answer || is_full)) continue;
    DatagramNeighbor& neighbor = add(rail, address, own);
    if (card->is_answer && (neighbor.nonce == 0 || card->nonce != neighbor.nonce)) continue;
    if (card->is_answer) {
      neighbor.nonce = 0;
      neighbor.questions = 0;
    } else {
      neighbor.used = now;
    }
    const bool is_of_our_kind = card->lanes.empty() == (own.lanes() == 0);
    if (!is_of_our_kind) ++of_other_transport_;
    const bool has_way = is_of_our_kind && learn(neighbor, *card, own, now);
    if (!card->is_answer) answer(neighbor, card->nonce, own);
    if (!has_way)
      errors.push_back({.kind = IoError::Kind::kPortUnreachable, .to = address, .rail = rail});
    if (has_way && !neighbor.held.empty()) known.push_back(&neighbor);
  }
  hear_errors(rail, own, errors);
}

// Of our questions: nobody has the port, or the host is not there.
void DatagramNeighbors::hear_errors(std::uint16_t rail, const DatagramRail& own,
                                    std::vector<IoError>& errors) {
  for (std::size_t i = 0; i < kDatagramsAtOnce; ++i) {
    SocketAddress to;
    alignas(cmsghdr) std::array<std::byte, 512> control{};
    msghdr header{};
    header.msg_name = to.get();
    header.msg_namelen = to.bytes;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(own.socket(), &header, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (const cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr;
         one = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(one))) {
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(one), sizeof(error));
      errors.push_back({.kind = error.ee_errno == ECONNREFUSED ? IoError::Kind::kPortUnreachable
                                                               : IoError::Kind::kHostUnreachable,
                        .to = to_net_address(to),
                        .rail = rail});
    }
  }
}

void DatagramNeighbors::forget(DatagramNeighbor& neighbor, DatagramRail& rail) {
  std::erase_if(senders_,
                [&neighbor](const auto& entry) { return entry.second.neighbor == &neighbor; });
  forget_ways(neighbor);
  for (auto& lane : neighbor.lanes)
    rail.end_lane(std::move(lane));
}

void DatagramNeighbors::tend(std::span<const std::unique_ptr<DatagramRail>> rails, Time now,
                             std::vector<DatagramRail::Outgoing>& lost,
                             std::vector<IoError>& errors) {
  for (auto at = neighbors_.begin(); at != neighbors_.end();) {
    DatagramNeighbor& one = *at->second;
    mend(one, *rails[one.rail], now);
    const bool is_wanted = !one.held.empty() || now - one.used < kAskAgain;
    const Duration pause = one.is_known ? kAskAgain : kFirstAsk;
    if (is_wanted && now - std::max(one.asked, one.confirmed) >= pause) {
      if (one.questions >= kQuestions) {
        lost.insert(lost.end(), one.held.begin(), one.held.end());
        one.held.clear();
        errors.push_back(
            {.kind = IoError::Kind::kHostUnreachable, .to = one.address, .rail = one.rail});
        one.questions = 0;
        ++gone_;
      }
      ask(one, *rails[one.rail], now);
    }
    if (now - one.used < kUnused || !one.held.empty()) {
      ++at;
      continue;
    }
    if (last_ == &one) last_ = nullptr;
    forget(one, *rails[one.rail]);
    at = neighbors_.erase(at);
  }
}

}  // namespace spindrift
