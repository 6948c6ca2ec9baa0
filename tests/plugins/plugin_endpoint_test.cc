// Plug-ins at work: chosen by file in ConnectOptions, and kept in bounds when they ask for
// nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contract/endpoint_world.h"

namespace spindrift {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string plugin(const std::string& name) {
  return std::string(PLUGIN_DIR) + "/" + name + ".so";
}

struct Chosen {
  std::string congestion_control = "nscc";
  std::string path_selector = "reps";
};

// Two endpoints in virtual time; the plug-in is a's.
class PluginEndpoint : public ::testing::Test {
 protected:
  void open(const Chosen& chosen) {
    pair_.reset();  // before its world
    world_ = all_worlds()[0].make();
    Pair::Options options;
    options.connect.congestion_control = chosen.congestion_control;
    options.connect.path_selector = chosen.path_selector;
    options.connect.path_count = 8;
    pair_ = std::make_unique<Pair>(*world_, options);
    ASSERT_TRUE(pair_->open());
  }
  // Writes 256 KiB from a to b and compares.
  void move_bytes() {
    constexpr std::size_t kBytes = 256 * 1024;
    Buffer source(*pair_->a, kBytes);
    Buffer target(*pair_->b, kBytes);
    source.fill(7);
    const Sge piece = source.all();
    ASSERT_TRUE(
        pair_->post_a({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = target.key()}));
    ASSERT_TRUE(pair_->wait_completions(*pair_->a, 1));
    EXPECT_THAT(statuses(pair_->take(*pair_->a)), ::testing::ElementsAre(OpStatus::kOk));
    EXPECT_TRUE(target.matches(7, 0, kBytes));
  }
  std::uint64_t count(std::string_view name) { return counter(*pair_->a, pair_->ab, name); }

  std::unique_ptr<EndpointWorld> world_;
  std::unique_ptr<Pair> pair_;
};

TEST_F(PluginEndpoint, AFileChoosesItsAlgorithm) {
  open({.congestion_control = CUSTOM_CC ":increase_packets=2"});
  move_bytes();
  EXPECT_EQ(pair_->a->info(pair_->ab).value().congestion_control, "aimd");
  EXPECT_GT(state(*pair_->a, pair_->ab, "window_packets"), 1);
  EXPECT_EQ(count("cc_limits_clamped"), 0U);
  EXPECT_EQ(pair_->a->last_error(pair_->ab), "");
}

TEST_F(PluginEndpoint, AFileChoosesAlgorithmAndPolicyByName) {
  open({.congestion_control = plugin("several") + ":steady:packets=3",
        .path_selector = plugin("several") + ":evens"});
  move_bytes();
  EXPECT_EQ(state(*pair_->a, pair_->ab, "steady_packets"), 3);
  EXPECT_GT(state(*pair_->a, pair_->ab, "steady_acked"), 0);
  EXPECT_GT(state(*pair_->a, pair_->ab, "evens_told"), 0);
  const auto paths = pair_->a->paths(pair_->ab);
  ASSERT_EQ(paths.size(), 8U);
  for (std::size_t i = 0; i < paths.size(); ++i)
    EXPECT_EQ(paths[i].packets_sent != 0, i % 2 == 0) << i;
}

TEST_F(PluginEndpoint, AWrongFileRefusesTheConnection) {
  world_ = all_worlds()[0].make();
  Pair::Options options;
  pair_ = std::make_unique<Pair>(*world_, options);
  const auto conn = pair_->a->connect(world_->nobody_address(),
                                      {.congestion_control = plugin("broken_wrong_version")});
  ASSERT_FALSE(conn.ok());
  EXPECT_THAT(conn.error().message(), HasSubstr("version 2"));
}

struct Nonsense {
  const char* name;
  const char* words;
};

TEST_F(PluginEndpoint, LimitsThatMakeNoSenseAreCorrectedCountedAndNamed) {
  for (const Nonsense& one :
       {Nonsense{"no_window", "window of less than one packet"},
        Nonsense{"absurd_rate", "above the link's"}, Nonsense{"crawl", "below 1 Mb/s"},
        Nonsense{"past_timer", "timer in the past"}, Nonsense{"no_credit", "credit"}}) {
    SCOPED_TRACE(one.name);
    open({.congestion_control = plugin("nonsense") + ":" + one.name});
    move_bytes();
    EXPECT_GT(count("cc_limits_clamped"), 0U);
    EXPECT_THAT(pair_->a->last_error(pair_->ab), HasSubstr(one.words));
    EXPECT_THAT(pair_->a->last_error(pair_->ab), HasSubstr(one.name));
  }
}

TEST_F(PluginEndpoint, PicksThatAreNoPathAreReplacedCountedAndNamed) {
  open({.path_selector = plugin("nonsense") + ":wild_picks"});
  move_bytes();
  EXPECT_GT(count("path_picks_out_of_range"), 0U);
  EXPECT_THAT(pair_->a->last_error(pair_->ab), HasSubstr("wild_picks"));
}

// Whichever side it is that cannot, both learn soon that there is no connection.
TEST_F(PluginEndpoint, AnInstanceThatCannotBeMadeFailsTheConnectionByName) {
  const std::string nothing = plugin("nonsense") + ":nothing";
  const std::string no_selector = plugin("nonsense") + ":no_selector";
  for (const bool is_initiator : {true, false})
    for (const ConnectOptions& options : {ConnectOptions{.congestion_control = nothing},
                                          ConnectOptions{.path_selector = no_selector}}) {
      pair_.reset();
      world_ = all_worlds()[0].make();
      pair_ = std::make_unique<Pair>(*world_, Pair::Options{});
      const ConnId at_a =
          pair_->a->connect(pair_->address, is_initiator ? options : ConnectOptions{}).value();
      ASSERT_TRUE(pair_->run_until([&] { return !pair_->b_events.empty(); }));
      const ConnId at_b = pair_->b_events[0].conn;
      ASSERT_TRUE(pair_->b->accept(at_b, is_initiator ? ConnectOptions{} : options).ok());
      ASSERT_TRUE(pair_->run_until(
          [&] {
            return has_event(pair_->a_events, ConnEvent::Kind::kFailed, at_a) &&
                   has_event(pair_->b_events, ConnEvent::Kind::kFailed, at_b);
          },
          std::chrono::milliseconds(500)))
          << is_initiator << options.congestion_control << ": a: " << pair_->a->last_error(at_a)
          << "; b: " << pair_->b->last_error(at_b);
      const std::string error =
          is_initiator ? pair_->a->last_error(at_a) : pair_->b->last_error(at_b);
      EXPECT_THAT(error, HasSubstr("could not make an instance"));
      EXPECT_THAT(error, AnyOf(HasSubstr(nothing), HasSubstr(no_selector)));
    }
}

TEST_F(PluginEndpoint, FieldsThatAreNoNumbersAreLeftOut) {
  open({.congestion_control = plugin("nonsense") + ":no_window"});
  class Names final : public StateWriter {
   public:
    void field(std::string_view name, double /*value*/) override { names.emplace_back(name); }
    std::vector<std::string> names;
  };
  Names names;
  pair_->a->describe(pair_->ab, names);
  EXPECT_THAT(names.names, ::testing::Not(::testing::Contains("not_a_number")));
  EXPECT_THAT(names.names, ::testing::Contains(
                               "a_name_that_is_much_longer_than_anybody_needs_and_does_not_fit_"));
}

}  // namespace
}  // namespace spindrift
