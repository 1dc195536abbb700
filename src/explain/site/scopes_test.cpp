#include "explain/site/scopes.hpp"

#include "explain/testing/trace_builder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vram::explain {
namespace {

using testing::Made;
using testing::TraceBuilder;

std::string name_at(const Made& made, const Scopes& scopes, uint64_t event) {
  const uint32_t scope = scopes.innermost_at(event);
  return scope == kNoScope ? "-" : std::string(made.trace.tables.strings[scopes.all[scope].name]);
}

Scopes build(const Made& made) { return build_scopes(made.trace, made.device()); }

TEST(Scopes, NestAndHoldTheirEvents) {
  TraceBuilder b;
  b.temporary(512);  // segment, alloc, free, free: events 0..3
  b.begin("step");
  const auto x = b.alloc(512);  // 4
  b.begin("forward");
  const auto y = b.alloc(512);  // 5 is its segment or itself
  b.end("forward");
  b.free(x);
  b.end("step");
  b.free(y);
  const Made made = b.build();
  const Scopes scopes = build(made);
  ASSERT_EQ(scopes.all.size(), 2U);
  EXPECT_EQ(scopes.all[1].parent, 0U);
  EXPECT_EQ(scopes.all[1].depth, 1U);
  EXPECT_EQ(name_at(made, scopes, 0), "-");
  EXPECT_EQ(name_at(made, scopes, made.history.lifetimes[x].alloc_event), "step");
  EXPECT_EQ(name_at(made, scopes, made.history.lifetimes[y].alloc_event), "forward");
  EXPECT_EQ(name_at(made, scopes, made.history.lifetimes[x].free_requested_event), "step");
  EXPECT_EQ(name_at(made, scopes, made.history.lifetimes[y].free_requested_event), "-");
  EXPECT_EQ(scopes.missing_ends + scopes.unmatched_ends, 0U);
}

TEST(Scopes, AMissingEndLastsToTheNextOfItsNameButNotBeyondItsParent) {
  TraceBuilder b;
  b.begin("epoch");
  b.begin("step");  // lost its end
  b.temporary(512);
  b.begin("step");
  b.temporary(512);
  b.end("step");
  b.begin("eval");  // lost its end too
  b.temporary(512);
  b.end("epoch");
  b.temporary(512);
  const Made made = b.build();
  const Scopes scopes = build(made);
  ASSERT_EQ(scopes.all.size(), 4U);
  EXPECT_EQ(scopes.missing_ends, 2U);
  EXPECT_EQ(scopes.all[1].end_event, scopes.all[2].first_event);
  EXPECT_FALSE(scopes.all[1].closed);
  EXPECT_EQ(scopes.all[2].depth, 1U);
  EXPECT_EQ(scopes.all[3].end_ns, scopes.all[0].end_ns);
}

TEST(Scopes, AnEndWithoutBeginIsDropped) {
  TraceBuilder b;
  b.end("step");
  b.begin("step");
  b.temporary(512);
  b.end("step");
  const Made made = b.build();
  const Scopes scopes = build(made);
  EXPECT_EQ(scopes.all.size(), 1U);
  EXPECT_EQ(scopes.unmatched_ends, 1U);
}

TEST(Scopes, OverlapOfTwoThreadsIsNoNesting) {
  TraceBuilder b;
  b.begin("a");
  b.temporary(512);
  b.begin("b");
  b.temporary(512);
  b.end("a");
  const auto x = b.alloc(512);
  b.end("b");
  const Made made = b.build();
  const Scopes scopes = build(made);
  ASSERT_EQ(scopes.all.size(), 2U);
  EXPECT_EQ(scopes.all[1].parent, kNoScope);
  EXPECT_EQ(name_at(made, scopes, made.history.lifetimes[x].alloc_event), "b");
}

// Two threads run the same code, the second a little later.
TEST(Scopes, OfOneNameOnTwoThreadsEndInTheirOwnOrder) {
  TraceBuilder b;
  b.begin("step");
  b.begin("forward");
  b.begin("step");
  b.end("forward");
  b.begin("forward");
  b.begin("backward");
  b.end("forward");
  b.end("backward");
  b.begin("backward");
  b.end("step");
  const int64_t first_end = b.trace().annotations.back().time_ns;
  b.end("backward");
  b.end("step");
  const int64_t second_end = b.trace().annotations.back().time_ns;
  const Made made = b.build();
  std::vector<int64_t> ends;
  for (const Scope& scope : build(made).all) {
    if (made.trace.tables.strings[scope.name] == "step") ends.push_back(scope.end_ns);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{first_end, second_end}));
}

TEST(Scopes, OfOneNameInsideEachOtherEndInsideOut) {
  TraceBuilder b;
  b.begin("Sequential");
  b.begin("Sequential");
  b.begin("Linear");
  b.end("Linear");
  b.end("Sequential");
  const int64_t inner_end = b.trace().annotations.back().time_ns;
  b.temporary(512);
  b.end("Sequential");
  const Scopes scopes = build(b.build());
  ASSERT_EQ(scopes.all.size(), 3U);
  EXPECT_EQ(scopes.all[1].end_ns, inner_end);
  EXPECT_GT(scopes.all[0].end_ns, inner_end);
}

TEST(Scopes, AreNoneWithoutAClock) {
  TraceBuilder b;
  b.begin("a");
  b.temporary(512);
  b.end("a");
  Made made = b.build();
  made.trace.has_time = false;
  EXPECT_TRUE(build(made).all.empty());
}

TEST(Scopes, OtherDevicesAnnotationsAreNotOurs) {
  TraceBuilder b;
  b.begin("mine");
  b.temporary(512);
  b.end("mine");
  Made made = b.build();
  trace::Annotation other = made.trace.annotations.front();
  other.device = 1;
  made.trace.annotations.push_back(other);
  EXPECT_EQ(build(made).all.size(), 1U);
}

TEST(Scopes, ManyOpenScopesStayFast) {
  TraceBuilder b;
  b.temporary(512);
  for (int i = 0; i < 100'000; ++i) b.begin("scope " + std::to_string(i));
  const Made made = b.build();
  EXPECT_EQ(build(made).missing_ends, 100'000U);
}

}  // namespace
}  // namespace vram::explain
