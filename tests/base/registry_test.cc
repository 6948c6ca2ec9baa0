#include "spindrift/registry.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spindrift {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array<ParameterInfo, 2> kParameters{
    ParameterInfo{"g", "", 0.5, 0, 1, "gain", "paper"},
    ParameterInfo{"timer_us", "us", 55, 1, 1000, "increase timer", "paper"}};

constexpr double kSlow[] = {0.25, 300};
constexpr double kDefault[] = {0.5, 55};
constexpr ParameterSet kSets[] = {
    {.name = "paper", .summary = "", .values = kDefault, .source = ""},
    {.name = "slow", .summary = "", .values = kSlow, .source = ""}};

Registry make_registry() {
  Registry registry;
  registry.add(CcInfo{.name = "dcqcn", .summary = "", .parameters = kParameters});
  registry.add(CcInfo{.name = "fixed", .summary = ""});
  registry.add(CcInfo{.name = "sets", .summary = "", .parameters = kParameters, .sets = kSets});
  registry.add(PathSelectorInfo{.name = "reps", .summary = ""});
  registry.add(PathSelectorInfo{.name = "single", .summary = ""});
  registry.add(ProviderInfo{.name = "udp", .summary = ""});
  return registry;
}

std::string refusal_of(std::string_view spec) {
  const Registry registry = make_registry();
  const auto choice = registry.find_congestion_control(spec);
  return choice.ok() ? "accepted" : choice.error().message();
}

TEST(Registry, FindsAnAlgorithmWithItsDefaults) {
  const Registry registry = make_registry();
  const auto choice = registry.find_congestion_control("dcqcn");
  ASSERT_TRUE(choice.ok()) << choice.error().message();
  EXPECT_EQ(choice.value().info, &registry.congestion_controls()[0]);
  EXPECT_THAT(choice.value().values, ElementsAre(0.5, 55));
}

TEST(Registry, SetsTheParametersGivenAndNoOthers) {
  const Registry registry = make_registry();
  const auto one = registry.find_congestion_control("dcqcn:timer_us=1e2");
  ASSERT_TRUE(one.ok()) << one.error().message();
  EXPECT_THAT(one.value().values, ElementsAre(0.5, 100));
  const auto both = registry.find_congestion_control("dcqcn:timer_us=1000,g=0");
  ASSERT_TRUE(both.ok()) << both.error().message();
  EXPECT_THAT(both.value().values, ElementsAre(0, 1000));
}

TEST(Registry, TakesASetByNameAndWhatIsGivenSinglyFirst) {
  const Registry registry = make_registry();
  const auto values_of = [&registry](std::string_view spec) {
    const auto choice = registry.find_congestion_control(spec);
    EXPECT_TRUE(choice.ok()) << choice.error().message();
    return choice.value().values;
  };
  EXPECT_THAT(values_of("sets"), ElementsAre(0.5, 55));
  EXPECT_THAT(values_of("sets:set=slow"), ElementsAre(0.25, 300));
  EXPECT_THAT(values_of("sets:set=slow,g=1"), ElementsAre(1, 300));
  EXPECT_THAT(values_of("sets:g=1,set=slow"), ElementsAre(1, 300));
}

TEST(Registry, RefusesUnknownSets) {
  EXPECT_THAT(refusal_of("sets:set=fast"),
              AllOf(HasSubstr("no set 'fast'"), HasSubstr("paper, slow")));
  EXPECT_THAT(refusal_of("sets:set=slow,set=slow"), HasSubstr("twice"));
  EXPECT_THAT(refusal_of("sets:alpha=1"), HasSubstr("set, g, timer_us"));
  EXPECT_THAT(refusal_of("dcqcn:set=slow"), HasSubstr("no parameter 'set'"));
}

TEST(Registry, AcceptsAnAlgorithmWithoutParameters) {
  const Registry registry = make_registry();
  const auto choice = registry.find_congestion_control("fixed");
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice.value().values, IsEmpty());
}

TEST(Registry, RefusesUnknownNamesWithTheListOfKnownOnes) {
  const Registry registry = make_registry();
  EXPECT_THAT(refusal_of("swift:g=1"),
              AllOf(HasSubstr("'swift'"), HasSubstr("dcqcn, fixed, sets")));
  const auto path = registry.find_path_selector("rep");
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(path.error().message(), AllOf(HasSubstr("'rep'"), HasSubstr("reps, single")));
  const auto provider = registry.find_provider("tcp");
  ASSERT_FALSE(provider.ok());
  EXPECT_THAT(provider.error().message(), AllOf(HasSubstr("'tcp'"), HasSubstr("udp")));
}

TEST(Registry, RefusesUnknownParametersWithTheListOfKnownOnes) {
  EXPECT_THAT(refusal_of("dcqcn:alpha=1"), AllOf(HasSubstr("'alpha'"), HasSubstr("g, timer_us")));
  EXPECT_THAT(refusal_of("fixed:g=1"), AllOf(HasSubstr("'g'"), HasSubstr("none")));
}

TEST(Registry, RefusesValuesOutsideTheBoundsWithUnitBoundsAndDefault) {
  for (const char* spec : {"dcqcn:timer_us=0.5", "dcqcn:timer_us=1001", "dcqcn:timer_us=nan",
                           "dcqcn:timer_us=", "dcqcn:timer_us=12us", "dcqcn:timer_us=inf"}) {
    EXPECT_THAT(refusal_of(spec),
                AllOf(HasSubstr("timer_us"), HasSubstr("1..1000 us"), HasSubstr("default 55")))
        << spec;
  }
}

TEST(Registry, RefusesMalformedSpecifications) {
  EXPECT_THAT(refusal_of("dcqcn:"), HasSubstr("name=value"));
  EXPECT_THAT(refusal_of("dcqcn:g"), HasSubstr("'g' is no parameter"));
  EXPECT_THAT(refusal_of("dcqcn:g=1,"), HasSubstr("name=value"));
  EXPECT_THAT(refusal_of("dcqcn:g=1,g=1"), HasSubstr("twice"));
  EXPECT_THAT(refusal_of(""), HasSubstr("there is no congestion control ''"));
}

TEST(Registry, FindsPathSelectorsAndProviders) {
  const Registry registry = make_registry();
  const auto path = registry.find_path_selector("single");
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path.value(), &registry.path_selectors()[1]);
  const auto provider = registry.find_provider("udp");
  ASSERT_TRUE(provider.ok());
  EXPECT_EQ(provider.value(), &registry.providers()[0]);
}

// Says what it was asked for in the name of what it finds.
class EchoLoader final : public PartLoader {
 public:
  Result<const CcInfo*> congestion_control(const Registry& /*registry*/, std::string_view file,
                                           std::string_view name) override {
    asked_ = std::string(file) + "|" + std::string(name);
    cc_ = CcInfo{.name = asked_, .summary = "", .parameters = kParameters};
    return &cc_;
  }
  Result<const PathSelectorInfo*> path_selector(const Registry& /*registry*/, std::string_view file,
                                                std::string_view name) override {
    asked_ = std::string(file) + "|" + std::string(name);
    policy_ = PathSelectorInfo{.name = asked_, .summary = ""};
    return &policy_;
  }

 private:
  std::string asked_;
  CcInfo cc_;
  PathSelectorInfo policy_;
};

TEST(Registry, AsksTheLoaderForNamesThatAreFiles) {
  EchoLoader loader;
  Registry registry = make_registry();
  registry.load_files_with(loader);
  const auto asked_for = [&registry](std::string_view spec) {
    const auto choice = registry.find_congestion_control(spec);
    if (!choice.ok()) return choice.error().message();
    return std::string(choice.value().info->name) + "|" + std::to_string(choice.value().values[0]);
  };
  EXPECT_EQ(asked_for("./x"), "./x||0.500000");
  EXPECT_EQ(asked_for("x.so"), "x.so||0.500000");
  EXPECT_EQ(asked_for("./x.so:g=0.25"), "./x.so||0.250000");
  EXPECT_EQ(asked_for("./x.so:foo"), "./x.so|foo|0.500000");
  EXPECT_EQ(asked_for("./x.so:foo:g=0.25,timer_us=1"), "./x.so|foo|0.250000");
  EXPECT_EQ(asked_for("dcqcn:g=1"), "dcqcn|1.000000");
  const auto policy = registry.find_path_selector("./x.so:foo");
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ(policy.value()->name, "./x.so|foo");
  const auto parameters = registry.find_path_selector("./x.so:foo:g=1");
  ASSERT_FALSE(parameters.ok());
  EXPECT_THAT(parameters.error().message(), HasSubstr("no parameters"));
}

TEST(Registry, WithoutALoaderRefusesFiles) {
  EXPECT_THAT(refusal_of("./x.so"), AllOf(HasSubstr("./x.so"), HasSubstr("builtin_registry")));
}

}  // namespace
}  // namespace spindrift
