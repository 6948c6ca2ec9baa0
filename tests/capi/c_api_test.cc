// The C API over UDP on the loopback: every call once, sizes of structs old and new, refusals.
#include "spindrift/c_api.h"

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/plugin.h"

extern "C" const size_t kSizesInC[];

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

std::string last_error() {
  std::array<char, 512> text{};
  spindrift_last_error(text.data(), text.size());
  return text.data();
}

template <class T>
T stamped() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

// Two endpoints of one process with a connection each.
class CApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(spindrift_open("udp://", nullptr, &a_), SPINDRIFT_OK) << last_error();
    ASSERT_EQ(spindrift_open("udp://", nullptr, &b_), SPINDRIFT_OK) << last_error();
    ASSERT_EQ(spindrift_listen(b_, "udp://127.0.0.1:0", nullptr, &listener_), SPINDRIFT_OK)
        << last_error();
    std::array<char, 128> address{};
    ASSERT_GT(spindrift_local_address(b_, 0, address.data(), address.size()), 0);
    address_ = address.data();
  }
  void TearDown() override {
    spindrift_destroy(a_);
    spindrift_destroy(b_);
  }

  // Progresses both until `is_done`; false after many turns.
  template <class Done>
  bool run_until(Done is_done) {
    const std::int64_t end = spindrift_now(a_) + 10 * kSecond;
    while (spindrift_now(a_) < end) {
      spindrift_progress(a_);
      spindrift_progress(b_);
      if (is_done()) return true;
    }
    return false;
  }
  bool next_event(spindrift_endpoint* endpoint, std::uint32_t kind, spindrift_event* event) {
    return run_until([&] {
      *event = stamped<spindrift_event>();
      return spindrift_poll_events(endpoint, event, 1) == 1 && event->kind == kind;
    });
  }
  void connect(const spindrift_connect_options* options = nullptr,
               const spindrift_connect_options* accept = nullptr) {
    ASSERT_EQ(spindrift_connect(a_, address_.c_str(), options, &ab_), SPINDRIFT_OK) << last_error();
    spindrift_event event{};
    ASSERT_TRUE(next_event(b_, SPINDRIFT_EVENT_REQUEST, &event));
    EXPECT_EQ(event.listener, listener_);
    ba_ = event.conn;
    ASSERT_EQ(spindrift_accept(b_, ba_, accept), SPINDRIFT_OK) << last_error();
    ASSERT_TRUE(next_event(a_, SPINDRIFT_EVENT_ESTABLISHED, &event));
    ASSERT_TRUE(next_event(b_, SPINDRIFT_EVENT_ESTABLISHED, &event));
  }
  spindrift_region region_of(spindrift_endpoint* endpoint, void* data, std::size_t bytes) {
    auto region = stamped<spindrift_region>();
    EXPECT_EQ(spindrift_register(endpoint, data, bytes,
                                 SPINDRIFT_LOCAL_WRITE | SPINDRIFT_REMOTE_READ |
                                     SPINDRIFT_REMOTE_WRITE | SPINDRIFT_REMOTE_ATOMIC,
                                 nullptr, &region),
              SPINDRIFT_OK)
        << last_error();
    return region;
  }
  spindrift_completion next_completion(spindrift_endpoint* endpoint) {
    auto done = stamped<spindrift_completion>();
    EXPECT_TRUE(run_until([&] { return spindrift_poll(endpoint, &done, 1) == 1; }));
    return done;
  }
  // Posts one request on a's connection and waits for its completion.
  spindrift_completion perform(spindrift_work work) {
    work.struct_size = sizeof(work);
    work.conn = ab_;
    EXPECT_EQ(spindrift_post(a_, &work, 1, nullptr), SPINDRIFT_OK) << last_error();
    return next_completion(a_);
  }

  spindrift_endpoint* a_ = nullptr;
  spindrift_endpoint* b_ = nullptr;
  spindrift_listener listener_ = 0;
  spindrift_conn ab_ = 0;
  spindrift_conn ba_ = 0;
  std::string address_;
};

TEST(CApiStructs, HaveTheSameSizesInCAndCpp) {
  const std::vector<std::size_t> sizes = {sizeof(spindrift_open_options),
                                          sizeof(spindrift_register_options),
                                          sizeof(spindrift_connect_options),
                                          sizeof(spindrift_listen_options),
                                          sizeof(spindrift_region),
                                          sizeof(spindrift_remote_region),
                                          sizeof(spindrift_event),
                                          sizeof(spindrift_conn_info),
                                          sizeof(spindrift_work),
                                          sizeof(spindrift_completion),
                                          sizeof(spindrift_path_report),
                                          sizeof(spindrift_sge),
                                          sizeof(spindrift_plugin_table),
                                          sizeof(spindrift_plugin_cc),
                                          sizeof(spindrift_plugin_ack),
                                          sizeof(spindrift_plugin_path_selector)};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_EQ(sizes[i], kSizesInC[i]) << i;
}

// The binary interface: what a program compiled against 0.1.0 says and expects.
TEST(CApiStructs, AreNoSmallerThanInTheFirstVersion) {
  EXPECT_GE(sizeof(spindrift_open_options), 88U);
  EXPECT_GE(sizeof(spindrift_connect_options), 168U);
  EXPECT_GE(sizeof(spindrift_work), 88U);
  EXPECT_GE(sizeof(spindrift_completion), 48U);
  EXPECT_GE(sizeof(spindrift_event), 24U);
  EXPECT_EQ(sizeof(spindrift_sge), 16U);
}

TEST(CApiStructs, OlderOnesGetDefaultsForWhatTheyDoNotKnow) {
  struct Old {
    spindrift_connect_options options;
    std::uint64_t guard;
  } old{};
  old.guard = 0x1234;
  const std::size_t known = offsetof(spindrift_connect_options, connect_timeout_ns);
  ASSERT_EQ(spindrift_connect_options_init(&old.options, known), SPINDRIFT_OK);
  EXPECT_EQ(old.options.struct_size, known);
  EXPECT_EQ(old.options.path_count, 16U);
  EXPECT_EQ(old.options.connect_timeout_ns, 0) << "written beyond what the caller has";
  spindrift_endpoint* endpoint = nullptr;
  ASSERT_EQ(spindrift_open("udp://", nullptr, &endpoint), SPINDRIFT_OK) << last_error();
  // A connect timeout of zero would be refused; the default is taken instead.
  spindrift_conn conn = 0;
  EXPECT_EQ(spindrift_connect(endpoint, "udp://127.0.0.1:9", &old.options, &conn), SPINDRIFT_OK)
      << last_error();
  old.options.struct_size = sizeof(old.options);
  EXPECT_EQ(spindrift_connect(endpoint, "udp://127.0.0.1:9", &old.options, &conn),
            SPINDRIFT_INVALID_ARGUMENT);
  spindrift_destroy(endpoint);
}

TEST(CApiStructs, NewerOnesAreAcceptedWhileWhatIsNewIsZero) {
  struct Newer {
    spindrift_open_options options;
    std::array<std::uint64_t, 4> later;
  } newer{};
  newer.later.fill(7);
  ASSERT_EQ(spindrift_open_options_init(&newer.options, sizeof(newer)), SPINDRIFT_OK);
  EXPECT_THAT(newer.later, ::testing::Each(0U));
  spindrift_endpoint* endpoint = nullptr;
  ASSERT_EQ(spindrift_open("udp://", &newer.options, &endpoint), SPINDRIFT_OK) << last_error();
  spindrift_destroy(endpoint);
  newer.later[2] = 1;
  EXPECT_EQ(spindrift_open("udp://", &newer.options, &endpoint), SPINDRIFT_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("spindrift_open_options"), HasSubstr("newer")));
}

TEST(CApiStructs, ImpossibleSizesAreRefused) {
  spindrift_endpoint* endpoint = nullptr;
  spindrift_open_options options{};
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{8}, sizeof(options) - 1, std::size_t{1} << 40}) {
    options.struct_size = bytes;
    EXPECT_EQ(spindrift_open("udp://", &options, &endpoint), SPINDRIFT_INVALID_ARGUMENT) << bytes;
    EXPECT_THAT(last_error(), HasSubstr("struct_size is " + std::to_string(bytes)));
    EXPECT_EQ(spindrift_open_options_init(&options, bytes), SPINDRIFT_INVALID_ARGUMENT);
  }
}

TEST_F(CApi, FillsOnlyWhatTheCallerHasRoomFor) {
  connect();
  std::uint64_t word = 5;
  const spindrift_region region = region_of(b_, &word, sizeof(word));
  const spindrift_sge piece{&word, 8, region_of(a_, &word, sizeof(word)).local_key};
  // A caller whose completion ends before `immediate`, in an array of two.
  struct Old {
    std::array<std::uint64_t, offsetof(spindrift_completion, immediate) / 8> fields;
  };
  std::array<Old, 3> old{};
  old[0].fields[0] = sizeof(Old);
  old[2].fields.fill(99);
  std::array<spindrift_work, 2> work{};
  for (std::size_t i = 0; i < work.size(); ++i) {
    work[i] = stamped<spindrift_work>();
    work[i].user_data = 70 + i;
    work[i].conn = ab_;
    work[i].op = SPINDRIFT_OP_WRITE;
    work[i].local = &piece;
    work[i].local_count = 1;
    work[i].remote_key = region.remote_key;
  }
  std::size_t accepted = 0;
  ASSERT_EQ(spindrift_post(a_, work.data(), work.size(), &accepted), SPINDRIFT_OK) << last_error();
  EXPECT_EQ(accepted, 2U);
  std::size_t count = 0;
  ASSERT_TRUE(run_until([&] {
    auto* next = reinterpret_cast<spindrift_completion*>(&old[count]);
    next->struct_size = sizeof(Old);
    const auto taken = spindrift_poll(a_, next, 2 - count);
    if (taken > 0) count += static_cast<std::size_t>(taken);
    return count == 2;
  }));
  EXPECT_EQ(old[0].fields[1], 70U);
  EXPECT_EQ(old[1].fields[0], sizeof(Old));
  EXPECT_EQ(old[1].fields[1], 71U);
  EXPECT_THAT(old[2].fields, ::testing::Each(99U));
}

TEST_F(CApi, MovesBytesByEveryOperation) {
  connect();
  std::array<std::uint64_t, 4> mine{1, 2, 3, 4};
  std::array<std::uint64_t, 4> theirs{};
  const spindrift_region source = region_of(a_, mine.data(), sizeof(mine));
  const spindrift_region target = region_of(b_, theirs.data(), sizeof(theirs));
  const spindrift_sge all{mine.data(), sizeof(mine), source.local_key};
  const spindrift_sge first{mine.data(), 8, source.local_key};
  spindrift_work work{};
  work.local = &all;
  work.local_count = 1;
  work.remote_key = target.remote_key;
  work.op = SPINDRIFT_OP_WRITE;
  work.timeout_ns = 5 * kSecond;
  EXPECT_EQ(perform(work).status, SPINDRIFT_STATUS_OK);
  EXPECT_EQ(theirs, mine);

  theirs[0] = 40;
  work.local = &first;
  work.op = SPINDRIFT_OP_READ;
  EXPECT_EQ(perform(work).status, SPINDRIFT_STATUS_OK);
  EXPECT_EQ(mine[0], 40U);
  work.op = SPINDRIFT_OP_FETCH_ADD;
  work.operand = 2;
  work.flags = SPINDRIFT_WORK_FENCE;
  EXPECT_EQ(perform(work).status, SPINDRIFT_STATUS_OK);
  EXPECT_EQ(theirs[0], 42U);
  EXPECT_EQ(mine[0], 40U);
  work.op = SPINDRIFT_OP_COMPARE_SWAP;
  work.compare = 42;
  work.operand = 7;
  EXPECT_EQ(perform(work).status, SPINDRIFT_STATUS_OK);
  EXPECT_EQ(theirs[0], 7U);
  EXPECT_EQ(mine[0], 42U);

  auto receive = stamped<spindrift_work>();
  receive.op = SPINDRIFT_OP_RECEIVE;
  receive.conn = ba_;
  receive.user_data = 9;
  ASSERT_EQ(spindrift_post(b_, &receive, 1, nullptr), SPINDRIFT_OK) << last_error();
  work = {};
  work.op = SPINDRIFT_OP_WRITE_IMM;
  work.immediate = 77;
  work.remote_key = target.remote_key;
  EXPECT_EQ(perform(work).status, SPINDRIFT_STATUS_OK);
  const spindrift_completion arrived = next_completion(b_);
  EXPECT_EQ(arrived.user_data, 9U);
  EXPECT_EQ(arrived.op, std::uint32_t{SPINDRIFT_OP_RECEIVE});
  EXPECT_EQ(arrived.immediate, 77U);
  EXPECT_EQ(arrived.flags, std::uint32_t{SPINDRIFT_COMPLETION_HAS_IMMEDIATE});

  work = {};
  work.op = SPINDRIFT_OP_WRITE;
  work.local = &first;
  work.local_count = 1;
  work.remote_key = target.remote_key + 1;
  const spindrift_completion refused = perform(work);
  EXPECT_STREQ(spindrift_status_name(refused.status), "remote key unknown");
}

TEST_F(CApi, SendsInlineAndUnsignaledIntoASharedQueue) {
  spindrift_shared_queue queue = 0;
  ASSERT_EQ(spindrift_create_shared_queue(b_, 8, &queue), SPINDRIFT_OK) << last_error();
  spindrift_connect_options accept{};
  ASSERT_EQ(spindrift_connect_options_init(&accept, sizeof(accept)), SPINDRIFT_OK);
  accept.shared_receive_queue = queue;
  connect(nullptr, &accept);
  std::array<char, 16> target{};
  const spindrift_region region = region_of(b_, target.data(), target.size());
  const spindrift_sge into{target.data(), 16, region.local_key};
  auto receive = stamped<spindrift_work>();
  receive.op = SPINDRIFT_OP_RECEIVE;
  receive.local = &into;
  receive.local_count = 1;
  ASSERT_EQ(spindrift_post_shared(b_, queue, &receive, 1, nullptr), SPINDRIFT_OK) << last_error();
  char text[] = "inline";
  const spindrift_sge from{text, 6, 0};
  auto send = stamped<spindrift_work>();
  send.conn = ab_;
  send.op = SPINDRIFT_OP_SEND;
  send.flags = SPINDRIFT_WORK_INLINE | SPINDRIFT_WORK_UNSIGNALED;
  send.local = &from;
  send.local_count = 1;
  ASSERT_EQ(spindrift_post(a_, &send, 1, nullptr), SPINDRIFT_OK) << last_error();
  const spindrift_completion arrived = next_completion(b_);
  EXPECT_EQ(arrived.flags, std::uint32_t{SPINDRIFT_COMPLETION_IS_SHARED});
  EXPECT_EQ(arrived.bytes, 6U);
  EXPECT_STREQ(target.data(), "inline");
  auto done = stamped<spindrift_completion>();
  EXPECT_EQ(spindrift_poll(a_, &done, 1), 0) << "an unsignaled SEND completed";
}

TEST_F(CApi, TellsThePeerAndTheStateOfAConnection) {
  spindrift_connect_options options{};
  ASSERT_EQ(spindrift_connect_options_init(&options, sizeof(options)), SPINDRIFT_OK);
  options.congestion_control = "dcqcn";
  options.path_selector = "single";
  options.path_count = 4;
  options.private_data = "who";
  options.private_bytes = 3;
  connect(&options);
  auto info = stamped<spindrift_conn_info>();
  ASSERT_EQ(spindrift_info(a_, ab_, &info), SPINDRIFT_OK) << last_error();
  EXPECT_STREQ(spindrift_state_name(info.state), "open");
  EXPECT_EQ(info.remote_address, address_);
  EXPECT_STREQ(info.congestion_control, "dcqcn");
  EXPECT_EQ(info.path_count, 4U);
  ASSERT_EQ(spindrift_info(b_, ba_, &info), SPINDRIFT_OK);
  EXPECT_EQ(info.private_bytes, 3U);
  EXPECT_EQ(std::memcmp(info.private_data, "who", 3), 0);

  std::map<std::string, std::uint64_t> counters;
  const auto add = [](void* context, const char* name, std::uint64_t value) {
    (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] = value;
  };
  ASSERT_EQ(spindrift_counters(a_, 0, add, &counters), SPINDRIFT_OK);
  EXPECT_EQ(counters.at("connections_opened"), 1U);
  ASSERT_EQ(spindrift_counters(a_, ab_, add, &counters), SPINDRIFT_OK);
  EXPECT_EQ(counters.count("acks_received"), 1U);
  std::map<std::string, double> fields;
  ASSERT_EQ(spindrift_describe(
                a_, ab_,
                [](void* context, const char* name, double value) {
                  (*static_cast<std::map<std::string, double>*>(context))[name] = value;
                },
                &fields),
            SPINDRIFT_OK);
  EXPECT_GT(fields.at("window_bytes"), 0);
  std::array<spindrift_path_report, 2> reports{};
  reports[0].struct_size = sizeof(reports[0]);
  EXPECT_EQ(spindrift_paths(a_, ab_, reports.data(), reports.size()), 4);
  EXPECT_STREQ(reports[1].state, "good");
  EXPECT_EQ(spindrift_deny_path(a_, ab_, 1, 1), SPINDRIFT_OK) << last_error();
  EXPECT_EQ(spindrift_paths(a_, ab_, reports.data(), reports.size()), 4);
  EXPECT_STREQ(reports[1].state, "denied");

  spindrift_event event{};
  EXPECT_EQ(spindrift_close(a_, ab_), SPINDRIFT_OK);
  EXPECT_TRUE(next_event(a_, SPINDRIFT_EVENT_CLOSED, &event));
  EXPECT_EQ(spindrift_release(a_, ab_), SPINDRIFT_OK);
  EXPECT_EQ(spindrift_release(a_, ab_), SPINDRIFT_NOT_FOUND);
  EXPECT_TRUE(next_event(b_, SPINDRIFT_EVENT_CLOSED, &event));
}

TEST_F(CApi, RejectsAndAborts) {
  ASSERT_EQ(spindrift_connect(a_, address_.c_str(), nullptr, &ab_), SPINDRIFT_OK);
  spindrift_event event{};
  ASSERT_TRUE(next_event(b_, SPINDRIFT_EVENT_REQUEST, &event));
  EXPECT_EQ(spindrift_reject(b_, event.conn, "not today"), SPINDRIFT_OK) << last_error();
  ASSERT_TRUE(next_event(a_, SPINDRIFT_EVENT_FAILED, &event));
  std::array<char, 256> cause{};
  EXPECT_GT(spindrift_conn_error(a_, ab_, cause.data(), cause.size()), 0);
  EXPECT_THAT(cause.data(), HasSubstr("not today"));
  connect();
  EXPECT_EQ(spindrift_abort(a_, ab_), SPINDRIFT_OK);
  EXPECT_TRUE(next_event(a_, SPINDRIFT_EVENT_CLOSED, &event));
  EXPECT_EQ(spindrift_stop_listening(b_, listener_), SPINDRIFT_OK);
}

TEST_F(CApi, WaitsByDescriptorAndByTimeout) {
  EXPECT_GE(spindrift_wait_fd(a_), 0);
  EXPECT_EQ(spindrift_arm(a_), 1);
  EXPECT_EQ(spindrift_wait(a_, 1000), SPINDRIFT_OK);
  EXPECT_EQ(spindrift_next_deadline(a_), INT64_MAX);
  auto done = stamped<spindrift_completion>();
  EXPECT_EQ(spindrift_wait_completion(a_, 1000, &done), SPINDRIFT_TIMED_OUT);
  auto event = stamped<spindrift_event>();
  EXPECT_EQ(spindrift_wait_event(a_, 1000, &event), SPINDRIFT_TIMED_OUT);
  EXPECT_THAT(last_error(), HasSubstr("no connection event within 1.0 us"));
}

TEST_F(CApi, RefusesWithACodeAndASentence) {
  spindrift_endpoint* none = nullptr;
  EXPECT_EQ(spindrift_progress(nullptr), SPINDRIFT_INVALID_ARGUMENT);
  EXPECT_EQ(spindrift_open("pigeon://", nullptr, &none), SPINDRIFT_NOT_FOUND);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("pigeon"), HasSubstr("udp")));
  EXPECT_EQ(spindrift_connect(a_, nullptr, nullptr, &ab_), SPINDRIFT_INVALID_ARGUMENT);
  spindrift_connect_options options{};
  ASSERT_EQ(spindrift_connect_options_init(&options, sizeof(options)), SPINDRIFT_OK);
  options.congestion_control = "newreno";
  EXPECT_EQ(spindrift_connect(a_, address_.c_str(), &options, &ab_), SPINDRIFT_NOT_FOUND);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("newreno"), HasSubstr("nscc")));
  auto work = stamped<spindrift_work>();
  work.conn = 12345;
  EXPECT_EQ(spindrift_post(a_, &work, 1, nullptr), SPINDRIFT_NOT_CONNECTED);
  work.op = 99;
  EXPECT_EQ(spindrift_post(a_, &work, 1, nullptr), SPINDRIFT_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("op is 99"));
  EXPECT_EQ(spindrift_local_address(a_, 99, nullptr, 0), SPINDRIFT_NOT_FOUND);
  auto remote = stamped<spindrift_remote_region>();
  EXPECT_EQ(spindrift_region_unpack("short", 5, &remote), SPINDRIFT_INVALID_ARGUMENT);
  std::array<char, 5> cut{};
  EXPECT_GT(spindrift_last_error(cut.data(), cut.size()), 5U);
  EXPECT_EQ(std::strlen(cut.data()), 4U);
}

TEST_F(CApi, APostStopsAtTheFirstWrongRequestAndCountsTheRest) {
  connect();
  std::array<spindrift_work, 40> work{};
  for (spindrift_work& one : work) {
    one = stamped<spindrift_work>();
    one.conn = ba_;
    one.op = SPINDRIFT_OP_RECEIVE;
  }
  work[35].flags = 1U << 31;
  std::size_t accepted = 0;
  EXPECT_EQ(spindrift_post(b_, work.data(), work.size(), &accepted), SPINDRIFT_INVALID_ARGUMENT);
  EXPECT_EQ(accepted, 35U);
  EXPECT_THAT(last_error(), HasSubstr("request 35"));
  work[1].struct_size = sizeof(spindrift_work) + 8;
  EXPECT_EQ(spindrift_post(b_, work.data(), 2, &accepted), SPINDRIFT_INVALID_ARGUMENT);
  EXPECT_EQ(accepted, 1U);
}

TEST_F(CApi, ExceptionsOfCallbacksStayInside) {
  EXPECT_EQ(spindrift_counters(
                a_, 0, [](void*, const char*, std::uint64_t) { throw 1; }, nullptr),
            SPINDRIFT_INTERNAL);
}

TEST_F(CApi, RegionsTravelAsBytes) {
  std::array<std::byte, 100> memory{};
  const spindrift_region region = region_of(a_, memory.data(), memory.size());
  std::array<std::uint8_t, SPINDRIFT_REGION_WIRE_BYTES> wire{};
  ASSERT_EQ(spindrift_region_pack(&region, wire.data()), SPINDRIFT_OK);
  auto remote = stamped<spindrift_remote_region>();
  ASSERT_EQ(spindrift_region_unpack(wire.data(), wire.size(), &remote), SPINDRIFT_OK);
  EXPECT_EQ(remote.key, region.remote_key);
  EXPECT_EQ(remote.bytes, 100U);
  EXPECT_EQ(remote.rights, region.rights);
  EXPECT_EQ(spindrift_deregister(a_, &region), SPINDRIFT_OK) << last_error();
  EXPECT_EQ(spindrift_deregister(a_, &region), SPINDRIFT_NOT_FOUND);
}

}  // namespace
