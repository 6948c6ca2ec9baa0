#include "collectives/executor.h"

#include <numeric>

#include <gtest/gtest.h>

#include "tests/collectives/fake_endpoint.h"

namespace spindrift::collectives {
namespace {

constexpr ConnId kToNext{1};
constexpr ConnId kFromPrevious{2};

struct Shape {
  std::uint32_t ranks = 2;
  std::uint64_t count = 0;
  bool is_in_place = false;
  std::uint64_t seed = 1;
  std::uint32_t full_percent = 0;
};

// Small integers: float sums of up to 64 of them are exact.
float value_of(std::uint32_t rank, std::uint64_t i) {
  return static_cast<float>(static_cast<int>((i * 7 + rank * 13 + i / 97) % 31) - 15);
}

// A ring of ranks in one thread, over fake endpoints.
class Ring {
 public:
  explicit Ring(const Shape& shape) : shape_(shape), world_(shape.seed) {
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      endpoints_.push_back(std::make_unique<FakeEndpoint>(world_));
      endpoints_.back()->full_percent = shape.full_percent;
      inputs_.emplace_back(shape.count + 1);
      outputs_.emplace_back(shape.count + 1, -99.0F);
      for (std::uint64_t i = 0; i < shape.count; ++i)
        inputs_[rank][i] = value_of(rank, i);
    }
    for (std::uint32_t rank = 0; rank < shape.ranks && shape.ranks > 1; ++rank) {
      world_.pipe(*endpoints_[rank], kToNext, *endpoints_[(rank + 1) % shape.ranks], kFromPrevious);
    }
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const std::uint32_t next = (rank + 1) % shape.ranks;
      const std::uint32_t previous = (rank + shape.ranks - 1) % shape.ranks;
      std::vector<Link> links;
      if (shape.ranks > 1) {
        links = {{.conn = kToNext, .peer = next, .is_outgoing = true, .address = "udp://next"},
                 {.conn = kFromPrevious, .peer = previous, .address = "udp://previous"}};
      }
      executors_.push_back(std::make_unique<Executor>(
          *endpoints_[rank], links,
          ExecutorOptions{.slice_bytes = 1024,
                          .slices_in_flight = 3,
                          .stall_timeout = std::chrono::milliseconds(10)}));
    }
  }

  std::span<float> result(std::uint32_t rank) {
    return shape_.is_in_place ? inputs_[rank] : outputs_[rank];
  }

  Status start(std::uint32_t rank, std::uint64_t count) {
    FakeEndpoint& endpoint = *endpoints_[rank];
    Buffers buffers{.count = count,
                    .reduce = find_reduce_kernel(DataType::kFloat32, ReduceOp::kSum).value()};
    buffers.input = endpoint
                        .register_memory(std::as_writable_bytes(std::span(inputs_[rank])),
                                         Access::kLocalWrite, {})
                        .value();
    buffers.output =
        endpoint.register_memory(std::as_writable_bytes(result(rank)), Access::kLocalWrite, {})
            .value();
    return executors_[rank]->start(ring_all_reduce(rank, shape_.ranks), buffers);
  }

  // Turns in random order until all are done or one fails.
  Status run() {
    for (std::uint32_t turn = 0; turn < 2'000'000; ++turn) {
      const auto rank = static_cast<std::uint32_t>(world_.rng.below(shape_.ranks));
      if (Status status = executors_[rank]->progress(); !status.ok()) return status;
      bool is_over = true;
      for (const std::unique_ptr<Executor>& executor : executors_)
        is_over &= executor->is_done();
      if (is_over) return ok_status();
    }
    return Error(ErrorCode::kTimedOut, "the ring did not finish");
  }

  void expect_sums() {
    for (std::uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      for (std::uint64_t i = 0; i < shape_.count; ++i) {
        float expected = 0;
        for (std::uint32_t from = 0; from < shape_.ranks; ++from)
          expected += value_of(from, i);
        ASSERT_EQ(result(rank)[i], expected) << "rank " << rank << " element " << i;
      }
      const float after = result(rank)[shape_.count];
      ASSERT_EQ(after, shape_.is_in_place ? 0.0F : -99.0F) << "wrote too far";
    }
  }

  FakeWorld& world() { return world_; }
  FakeEndpoint& endpoint(std::uint32_t rank) { return *endpoints_[rank]; }
  Executor& executor(std::uint32_t rank) { return *executors_[rank]; }

 private:
  const Shape shape_;
  FakeWorld world_;
  std::vector<std::unique_ptr<FakeEndpoint>> endpoints_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::unique_ptr<Executor>> executors_;  // before the endpoints go
};

void expect_all_reduce(const Shape& shape) {
  Ring ring(shape);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const Status started = ring.start(rank, shape.count);
    ASSERT_TRUE(started.ok()) << started.error().message();
  }
  const Status status = ring.run();
  ASSERT_TRUE(status.ok()) << status.error().message();
  ring.expect_sums();
}

TEST(Executor, SumsEveryCountWithEveryGroupOutOfPlaceAndInPlace) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 5U, 8U, 13U}) {
    for (const std::uint64_t count : {0ULL, 1ULL, 2ULL, 31ULL, 33ULL, 255ULL, 257ULL, 5003ULL}) {
      for (const bool is_in_place : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << ranks << " ranks, " << count << " elements, in place " << is_in_place);
        expect_all_reduce({.ranks = ranks, .count = count, .is_in_place = is_in_place});
      }
    }
  }
}

TEST(Executor, SumsAreRightInWhateverOrderSlicesArrive) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_all_reduce({.ranks = 4, .count = 9001, .is_in_place = seed % 2 == 0, .seed = seed});
  }
}

TEST(Executor, WaitsForRoomWhenAQueueIsFull) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    expect_all_reduce({.ranks = 3, .count = 7001, .seed = seed, .full_percent = 70});
  }
}

TEST(Executor, RunsTheLargestGroup) {
  expect_all_reduce({.ranks = kMaxRanks, .count = 4001, .is_in_place = true});
}

TEST(Executor, RunsOneCollectiveAfterAnotherOverTheSameScratchMemory) {
  const Shape shape{.ranks = 3, .count = 2000};
  Ring ring(shape);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      ASSERT_TRUE(ring.start(rank, shape.count).ok());
    }
    ASSERT_TRUE(ring.run().ok());
    ring.expect_sums();
  }
  // Two user buffers per round; the scratch memory once.
  EXPECT_EQ(ring.endpoint(0).regions_registered, 3U * 2 + 1);
}

TEST(Executor, RefusesASecondCollectiveWhileOneRuns) {
  Ring ring({.ranks = 2, .count = 1000});
  ASSERT_TRUE(ring.start(0, 1000).ok());
  const Status status = ring.start(0, 1000);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kUnavailable);
}

TEST(Executor, NamesRankPeerAddressAndCauseWhenAConnectionDies) {
  Ring ring({.ranks = 3, .count = 50000});
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(ring.start(rank, 50000).ok());
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(ring.executor(1).progress().ok());
  ring.endpoint(1).error = "no answer for 5 s";
  ring.endpoint(1).end(kToNext, OpStatus::kPeerGone);
  ring.endpoint(1).end(kFromPrevious, OpStatus::kFlushed);
  Status status = ok_status();
  for (int i = 0; i < 100 && status.ok(); ++i)
    status = ring.executor(1).progress();
  ASSERT_FALSE(status.ok());
  const std::string& message = status.error().message();
  EXPECT_NE(message.find("rank 1 "), std::string::npos) << message;
  EXPECT_NE(message.find("to rank 2 (udp://next)"), std::string::npos) << message;
  EXPECT_NE(message.find("no answer for 5 s"), std::string::npos) << message;
  // The error is final.
  EXPECT_EQ(ring.executor(1).progress().error().message(), message);
  EXPECT_EQ(ring.start(1, 10).error().message(), message);
}

TEST(Executor, NamesThePeerWhenItsConnectionIsClosedMidway) {
  Ring ring({.ranks = 2, .count = 50000});
  ASSERT_TRUE(ring.start(0, 50000).ok());
  ring.endpoint(0).events.push_back({.kind = ConnEvent::Kind::kClosed, .conn = kFromPrevious});
  const Status status = ring.executor(0).progress();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("from rank 1 (udp://previous)"), std::string::npos)
      << status.error().message();
}

TEST(Executor, ReportsAStallWithTheRankItWaitsFor) {
  Ring ring({.ranks = 3, .count = 1000});
  ASSERT_TRUE(ring.start(1, 1000).ok());
  const Status status = ring.executor(1).wait();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kTimedOut);
  EXPECT_NE(status.error().message().find("receiving from rank 0"), std::string::npos)
      << status.error().message();
}

TEST(Executor, SaysSoWhenRanksDisagreeAboutTheCount) {
  Ring ring({.ranks = 2, .count = 400});
  ASSERT_TRUE(ring.start(0, 400).ok());
  ASSERT_TRUE(ring.start(1, 100).ok());
  const Status status = ring.run();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("same count"), std::string::npos)
      << status.error().message();
}

}  // namespace
}  // namespace spindrift::collectives
