#include "tools/perf/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift::perf {
namespace {

using testing::HasSubstr;

Registry registry() {
  Registry out;
  for (const char* provider : {"udp", "ofi", "dpdk", "verbs"})
    out.add(ProviderInfo{.name = provider, .summary = ""});
  out.add(CcInfo{.name = "nscc", .summary = ""});
  out.add(PathSelectorInfo{.name = "reps", .summary = ""});
  out.add(PathSelectorInfo{.name = "single", .summary = ""});
  out.add(LossRuleInfo{.name = "per_path", .summary = ""});
  out.add(LossRuleInfo{.name = "rack", .summary = ""});
  return out;
}

Result<PerfOptions> parse(const std::vector<std::string>& words) {
  CLI::App app("test");
  PerfArguments arguments;
  declare_arguments(app, &arguments);
  app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  return check_arguments(arguments, registry());
}

std::string refusal(const std::vector<std::string>& words) {
  const Result<PerfOptions> options = parse(words);
  return options.ok() ? "" : options.error().message();
}

TEST(PerfArguments, DefaultToTheBandwidthOf64KiBWrites) {
  const PerfOptions options = parse({"10.0.0.1"}).value();
  EXPECT_EQ(options.mode, Mode::kClient);
  EXPECT_EQ(options.server_address, "udp://10.0.0.1");
  EXPECT_EQ(options.shape.operation, Operation::kWrite);
  EXPECT_EQ(options.shape.sizes, std::vector<std::uint64_t>{65536});
  EXPECT_TRUE(options.has_bandwidth);
  EXPECT_FALSE(options.has_latency);
}

TEST(PerfArguments, ReachTheTest) {
  const PerfOptions options =
      parse({"udp://10.0.0.1:1", "--op", "send", "--test", "both", "--size", "4K", "--depth", "3",
             "--connections", "2", "--bidirectional", "--verify", "-n", "9", "--warmup", "1"})
          .value();
  EXPECT_EQ(options.server_address, "udp://10.0.0.1:1");
  EXPECT_EQ(options.shape.operation, Operation::kSend);
  EXPECT_TRUE(options.has_bandwidth && options.has_latency);
  EXPECT_EQ(options.shape.sizes.front(), 4096u);
  EXPECT_EQ(options.shape.depth, 3u);
  EXPECT_EQ(options.shape.connections, 2u);
  EXPECT_TRUE(options.shape.is_bidirectional);
  EXPECT_TRUE(options.shape.has_verify);
  const RunRequest run = make_run(options, 4096, false);
  EXPECT_EQ(run.iterations, 9u);
  EXPECT_EQ(run.warmup, 1u);
}

TEST(PerfArguments, ReachTheTransport) {
  const PerfOptions options = parse({"local",
                                     "--path-selector",
                                     "single",
                                     "--paths",
                                     "4",
                                     "--burst",
                                     "16K",
                                     "--mtu",
                                     "1024",
                                     "--crc",
                                     "on",
                                     "--dscp",
                                     "26",
                                     "--deadline",
                                     "5s",
                                     "--rails",
                                     "10.0.0.2,::1",
                                     "--guardian",
                                     "--fault",
                                     "loss=1%",
                                     "--capture",
                                     "x.pcap"})
                                  .value();
  EXPECT_EQ(options.mode, Mode::kLocal);
  EXPECT_EQ(options.transport.path_selector, "single");
  EXPECT_EQ(options.transport.path_count, 4u);
  EXPECT_EQ(options.transport.burst_bytes, 16384u);
  EXPECT_EQ(options.transport.max_payload_mtu, 1024u);
  EXPECT_EQ(options.transport.crc, CrcChoice::kOn);
  EXPECT_EQ(options.transport.dscp, 26);
  EXPECT_EQ(options.transport.deadline, std::chrono::seconds(5));
  EXPECT_EQ(options.rails, (std::vector<std::string>{"10.0.0.2", "::1"}));
  EXPECT_TRUE(options.has_guardian);
  EXPECT_EQ(options.faults, "loss=1%");
  EXPECT_EQ(options.capture, "x.pcap");
}

TEST(PerfArguments, RefuseWhatMakesNoSenseNamingTheValue) {
  EXPECT_THAT(refusal({"local", "--op", "push"}), HasSubstr("'push'"));
  EXPECT_THAT(refusal({"local", "--test", "speed"}), HasSubstr("'speed'"));
  EXPECT_THAT(refusal({"local", "--size", "64Q"}), HasSubstr("'64Q'"));
  EXPECT_THAT(refusal({"local", "--size", "3G"}), HasSubstr("3G"));
  EXPECT_THAT(refusal({"local", "--depth", "0"}), HasSubstr("1..1024"));
  EXPECT_THAT(refusal({"local", "--connections", "257"}), HasSubstr("1..256"));
  EXPECT_THAT(refusal({"local", "--paths", "257"}), HasSubstr("1..256"));
  EXPECT_THAT(refusal({"local", "--mtu", "1000"}), HasSubstr("1000"));
  EXPECT_THAT(refusal({"local", "--burst", "2M"}), HasSubstr("2M"));
  EXPECT_THAT(refusal({"local", "--crc", "maybe"}), HasSubstr("'maybe'"));
  EXPECT_THAT(refusal({"local", "--dscp", "64"}), HasSubstr("0..63"));
  EXPECT_THAT(refusal({"local", "--deadline", "soon"}), HasSubstr("'soon'"));
  EXPECT_THAT(refusal({"local", "--iterations", "0"}), HasSubstr("--iterations"));
  EXPECT_THAT(refusal({"local", "--duration", "0"}), HasSubstr("--duration"));
}

TEST(PerfArguments, RefuseAddressesThatCannotBeUsed) {
  EXPECT_THAT(refusal({"tcp://10.0.0.1"}), HasSubstr("'tcp'"));
  EXPECT_THAT(refusal({"10.0.0.1:65536"}), HasSubstr("'65536'"));
  EXPECT_THAT(refusal({"10.0.0.1:abc"}), HasSubstr("'abc'"));
  EXPECT_THAT(refusal({"[::1"}), HasSubstr("bracket"));
  EXPECT_THAT(refusal({""}), HasSubstr("no address"));
  EXPECT_THAT(refusal({"10.0.0.1:0"}), HasSubstr("port 0"));
  EXPECT_THAT(refusal({"0.0.0.0"}), HasSubstr("0.0.0.0"));
  EXPECT_THAT(refusal({"ofi://net@10.0.0.1:abc"}), HasSubstr("'abc'"));
  EXPECT_THAT(refusal({"ofi://net"}), HasSubstr("names no host"));
  EXPECT_THAT(refusal({"ofi://net@10.0.0.1:0"}), HasSubstr("port 0"));
  EXPECT_THAT(refusal({"ofi://net@10.0.0.1?nosuch=1"}), HasSubstr("'nosuch'"));
  EXPECT_THAT(refusal({"server", "--listen", "ofi://4@"}), HasSubstr("name of a provider"));
  EXPECT_TRUE(parse({"server", "--listen", "ofi://net"}).ok());
  EXPECT_THAT(refusal({"server", "--listen", "10.0.0.1:65536"}), HasSubstr("'65536'"));
  EXPECT_TRUE(parse({"server", "--listen", "0.0.0.0:0"}).ok());
}

TEST(PerfArguments, ShowAnAddressOfTheProviderWhereOneIsMissing) {
  EXPECT_THAT(refusal({"udp://"}), HasSubstr("as in udp://10.0.0.1:4793"));
  EXPECT_THAT(refusal({"ofi://"}), HasSubstr("as in ofi://net@10.0.0.1:4793"));
  EXPECT_THAT(refusal({"server", "--listen", "verbs://"}), HasSubstr("as in verbs://auto"));
  EXPECT_THAT(refusal({"server", "--listen", "dpdk://"}), HasSubstr("as in dpdk://net_memif0?ip="));
}

TEST(PerfArguments, RefuseFaultsThatAreNoneOnEverySide) {
  for (const char* target : {"10.0.0.1", "local", "server"}) {
    EXPECT_THAT(refusal({target, "--fault", "nonsense=1"}), HasSubstr("'nonsense=1'")) << target;
  }
}

TEST(PerfArguments, HaveCrcWhereverBitsAreDamagedOnPurpose) {
  const PerfOptions damaged = parse({"local", "--fault", "loss=1%,corrupt=1%"}).value();
  EXPECT_TRUE(damaged.has_corruption);
  EXPECT_EQ(damaged.transport.crc, CrcChoice::kOn);
  EXPECT_TRUE(parse({"server", "--fault", "corrupt=1%"}).value().has_corruption);
  const PerfOptions whole = parse({"local", "--fault", "loss=1%,corrupt=0"}).value();
  EXPECT_FALSE(whole.has_corruption);
  EXPECT_EQ(whole.transport.crc, CrcChoice::kAuto);
  EXPECT_THAT(refusal({"local", "--fault", "corrupt=1%", "--crc", "off"}), HasSubstr("--crc off"));
}

TEST(PerfArguments, NameNumbersAsTheyWereTyped) {
  EXPECT_THAT(refusal({"local", "-n", "-1"}), HasSubstr("--iterations -1"));
  EXPECT_THAT(refusal({"local", "--warmup", "-1"}), HasSubstr("--warmup -1"));
  EXPECT_THAT(refusal({"local", "--min-bw", "nan"}), HasSubstr("--min-bw nan"));
  EXPECT_THAT(refusal({"local", "--min-bw", "-3"}), HasSubstr("--min-bw -3"));
}

TEST(MakeRun, WarmsUpWithAQuarterOfAGibibyteAtMost) {
  const PerfOptions options = parse({"local", "-n", "1", "--connections", "2"}).value();
  EXPECT_EQ(make_run(options, 2ULL << 30, false).warmup, 0u);
  EXPECT_EQ(make_run(options, 16ULL << 20, false).warmup, 8u);
  EXPECT_EQ(make_run(options, 65536, false).warmup, 128u);
}

TEST(PerfArguments, RefuseUnknownAlgorithmsListingTheKnown) {
  EXPECT_THAT(refusal({"local", "--cc", "bbr9"}), HasSubstr("nscc"));
  EXPECT_THAT(refusal({"local", "--path-selector", "best"}), HasSubstr("single"));
}

TEST(PerfArguments, RefuseContradictions) {
  EXPECT_NE(refusal({"local", "--all", "--size", "8"}), "");
  EXPECT_NE(refusal({"local", "-n", "5", "-D", "1"}), "");
  EXPECT_NE(refusal({"local", "--op", "atomic", "--size", "16"}), "");
  EXPECT_NE(refusal({"local", "--op", "atomic", "--all"}), "");
  EXPECT_NE(refusal({"local", "--test", "lat", "--bidirectional"}), "");
  EXPECT_NE(refusal({"local", "--test", "lat", "--size", "0"}), "");
  EXPECT_NE(refusal({"local", "--min-bw", "1", "--test", "lat"}), "");
  EXPECT_NE(refusal({"local", "--max-lat", "1"}), "");
  EXPECT_NE(refusal({"10.0.0.1", "--listen", "udp://0.0.0.0:1"}), "");
  EXPECT_NE(refusal({"server", "--op", "send"}), "");
}

TEST(PerfArguments, LetAServerChooseItsAddress) {
  const PerfOptions options = parse({"server", "--listen", "127.0.0.1:5", "--once"}).value();
  EXPECT_EQ(options.mode, Mode::kServer);
  EXPECT_EQ(options.listen_address, "udp://127.0.0.1:5");
  EXPECT_TRUE(options.serves_once);
}

TEST(MakeRun, MeasuresLatencyByIterationsAndBandwidthByTime) {
  const PerfOptions options = parse({"local", "--test", "both"}).value();
  EXPECT_EQ(make_run(options, 8, true).iterations, kDefaultLatencyIterations);
  EXPECT_EQ(make_run(options, 8, false).iterations, 0u);
  EXPECT_EQ(make_run(options, 8, false).duration, std::chrono::seconds(2));
}

}  // namespace
}  // namespace spindrift::perf
