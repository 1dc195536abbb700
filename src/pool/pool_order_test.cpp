// Random programs against the pool on a GPU that finds every access out of order and every mapping
// that goes too early (testing/random_program.hpp). 2 million operations; with VRAM_DEEP
// set, 100 million.
#include "pool/testing/random_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace vram::pool {
namespace {

// Shrinking: the failing part of a random program that fails still, by delta debugging (Zeller and
// Hildebrandt, 2002): pieces are left out, ever smaller ones, as long as what remains fails. Any
// part of the program must be one, too.
template <typename Op, typename Fails>
std::vector<Op> shrink(std::vector<Op> program, const Fails& fails) {
  for (size_t size = std::max<size_t>(program.size() / 2, 1); !program.empty();) {
    bool has_shrunk = false;
    for (size_t at = 0; at < program.size();) {
      std::vector<Op> rest = program;
      const size_t end = std::min(at + size, rest.size());
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(at),
                 rest.begin() + static_cast<ptrdiff_t>(end));
      if (fails(rest)) {
        program = std::move(rest);
        has_shrunk = true;
      } else {
        at += size;
      }
    }
    if (size == 1 && !has_shrunk) break;
    if (!has_shrunk) size /= 2;
  }
  return program;
}

constexpr size_t kOpsPerProgram = 2000;
constexpr uint64_t kPrograms = 1000;
constexpr uint64_t kShares = 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kDeepFactor = 5;  // each operation takes ten times as long
#else
constexpr uint64_t kDeepFactor = 50;
#endif

std::string failure_of(const World& world, const std::vector<Op>& ops, size_t* done) {
  return RandomProgram(world).run(ops, done);
}

// What kind of violation it is: its words, without the numbers.
std::string kind_of(const std::string& wrong) {
  std::string kind;
  for (const char c : wrong.substr(0, 40)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) kind += c;
  }
  return kind.substr(0, 16);
}

// The shortest program that fails with a violation of the same kind.
std::string shrunk(const World& world, const std::vector<Op>& ops, const std::string& wrong) {
  const std::string kind = kind_of(wrong);
  size_t done = 0;
  const auto fails = [&](const std::vector<Op>& some) {
    return kind_of(failure_of(world, some, &done)) == kind;
  };
  const std::vector<Op> few = shrink(ops, fails);
  std::string text = failure_of(world, few, &done);
  for (const Op& op : few) text += "\n  " + to_string(op);
  return text;
}

// A share of the programs.
class PoolOrderTest : public testing::TestWithParam<uint64_t> {};

TEST_P(PoolOrderTest, NothingIsUsedOutOfOrderOrUnmappedTooEarly) {
  const bool is_deep = std::getenv("VRAM_DEEP") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const uint64_t count = kPrograms / kShares * (is_deep ? kDeepFactor : 1);
  const uint64_t first = 1 + GetParam() * count;
  const uint64_t end = first + count;
  Stats sum;
  for (uint64_t seed = first; seed < end; ++seed) {
    const World world = world_of(seed);
    const std::vector<Op> ops = random_ops(seed, kOpsPerProgram);
    size_t done = 0;
    RandomProgram program(world);
    const std::string wrong = program.run(ops, &done);
    ASSERT_TRUE(wrong.empty()) << "program " << seed << ", after "
                               << (seed - 1) * kOpsPerProgram + done
                               << " operations in all: " << wrong << "\nshortened: "
                               << shrunk(world,
                                         {ops.begin(), ops.begin() + static_cast<ptrdiff_t>(done)},
                                         wrong);
    const Stats& stats = program.stats();
    sum.stitches += stats.stitches;
    sum.stitch_reuses += stats.stitch_reuses;
    sum.stream_waits += stats.stream_waits;
    sum.num_ooms += stats.num_ooms;
    sum.num_device_free += stats.num_device_free;
  }
  // Each program does some of it.
  EXPECT_GT(sum.stitches, end - first) << "the test no longer tests it";
  EXPECT_GT(sum.stitch_reuses, end - first);
  EXPECT_GT(sum.stream_waits, end - first);
  EXPECT_GT(sum.num_ooms, end - first);
  EXPECT_GT(sum.num_device_free, end - first);
}

INSTANTIATE_TEST_SUITE_P(Shares, PoolOrderTest, testing::Range(uint64_t{0}, kShares));

}  // namespace
}  // namespace vram::pool
