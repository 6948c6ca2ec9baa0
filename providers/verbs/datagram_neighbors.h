#pragma once
// Who is at the other end of datagrams: found by a question over UDP, asked again while it is in
// use, and known by its own questions too. Internal to providers/verbs.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "spindrift/provider.h"

#include "providers/verbs/datagram_card.h"
#include "providers/verbs/datagram_rail.h"

namespace spindrift {

// One at the other end of one of our rails.
struct DatagramNeighbor {
  NetAddress address{};
  std::uint16_t rail = 0;
  bool is_known = false;
  DatagramCard card{};
  std::uint64_t nonce = 0;  // of the question that waits for an answer; 0: none
  Time asked{};
  Time confirmed{};
  Time used{};
  std::uint32_t questions = 0;  // without an answer
  struct Way {
    std::uint8_t traffic_class = 0;
    ibv_ah* handle = nullptr;
  };
  std::vector<Way> ways{};  // UD
  // UC: ours, of which the first `paths` are connected to its.
  std::vector<std::unique_ptr<DatagramLane>> lanes{};
  std::size_t paths = 0;
  std::uint64_t label_base = 0;  // of their flow labels
  Time mended{};
  std::vector<DatagramRail::Outgoing> held{};  // until it is known
};

class DatagramNeighbors {
 public:
  DatagramNeighbors() = default;
  DatagramNeighbors(const DatagramNeighbors&) = delete;
  DatagramNeighbors& operator=(const DatagramNeighbors&) = delete;
  ~DatagramNeighbors();

  // Asks when it is new.
  DatagramNeighbor& find(std::uint16_t rail, const NetAddress& address,
                         std::span<const std::unique_ptr<DatagramRail>> rails, Time now);
  // UD: whose queue pair with that number sends to one of our rails; UC: for whom one of ours is.
  // Null: nobody that we know.
  struct Sender {
    DatagramNeighbor* neighbor = nullptr;
    std::uint16_t lane = 0;  // UC
  };
  Sender sender(std::uint16_t rail, std::uint32_t queue_pair) const;
  // UC: the device gave up one of ours.
  void fail_lane(std::uint16_t rail, std::uint32_t queue_pair) const;
  // The way to it in that class; null: the device makes none.
  ibv_ah* way(DatagramNeighbor& neighbor, const DatagramRail& rail, std::uint8_t traffic_class,
              std::uint8_t service_level);

  // Questions, answers and errors that came; those that have become known are appended.
  void hear(std::uint16_t rail, DatagramRail& own, Time now, std::vector<DatagramNeighbor*>& known,
            std::vector<IoError>& errors);
  // Asks again where it is time, and mends lanes; who does not answer for long is given up: its
  // packets are appended.
  void tend(std::span<const std::unique_ptr<DatagramRail>> rails, Time now,
            std::vector<DatagramRail::Outgoing>& lost, std::vector<IoError>& errors);

  std::uint64_t gone() const { return gone_; }
  std::uint64_t mended() const { return mended_; }
  std::uint64_t of_other_transport() const { return of_other_transport_; }
  std::uint64_t size() const { return neighbors_.size(); }

 private:
  struct Place {
    std::uint16_t rail = 0;
    NetAddress address{};
    bool operator==(const Place&) const = default;
  };
  struct HashPlace {
    std::size_t operator()(const Place& place) const;
  };
  static std::uint64_t sender_key(std::uint16_t rail, std::uint32_t queue_pair) {
    return std::uint64_t{rail} << 32 | queue_pair;
  }
  DatagramNeighbor& add(std::uint16_t number, const NetAddress& address, DatagramRail& rail);
  void make_lanes(DatagramNeighbor& neighbor, DatagramRail& rail);
  // False: there is no way to it.
  bool learn(DatagramNeighbor& neighbor, const DatagramCard& card, DatagramRail& rail, Time now);
  static bool connect(DatagramNeighbor& neighbor, std::size_t lane, DatagramRail& rail);
  void mend(DatagramNeighbor& neighbor, DatagramRail& rail, Time now);
  static DatagramCard card_for(const DatagramNeighbor& neighbor, const DatagramRail& rail);
  static void answer(const DatagramNeighbor& neighbor, std::uint64_t nonce,
                     const DatagramRail& rail);
  static void ask(DatagramNeighbor& neighbor, const DatagramRail& rail, Time now);
  void forget_ways(DatagramNeighbor& neighbor);
  void forget(DatagramNeighbor& neighbor, DatagramRail& rail);
  void hear_errors(std::uint16_t rail, const DatagramRail& own, std::vector<IoError>& errors);

  std::unordered_map<Place, std::unique_ptr<DatagramNeighbor>, HashPlace> neighbors_;
  std::unordered_map<std::uint64_t, Sender> senders_;
  DatagramNeighbor* last_ = nullptr;  // that find() gave
  std::uint64_t gone_ = 0;
  std::uint64_t mended_ = 0;
  std::uint64_t of_other_transport_ = 0;
};

}  // namespace spindrift
