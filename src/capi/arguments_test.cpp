// What no correct program passes: NULL, and handles that are closed.
#include "base/testing/paths.hpp"
#include "capi/testing/fake_machine.hpp"

#include <cstdint>
#include <unistd.h>
#include <vram/look.h>
#include <vram/record.h>

namespace vram::capi {
namespace {

class ArgumentsTest : public FakeMachine {
 protected:
  // Each function about a pool, with arguments that are right but for the pool.
  static void expect_refusal(vram_pool* pool) {
    void* block = nullptr;
    EXPECT_EQ(vram_alloc(pool, 1, nullptr, &block), VRAM_INVALID_VALUE);
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(vram_free(pool, &block), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_record_stream(pool, &block, nullptr), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_forget_stream(pool, nullptr), VRAM_INVALID_VALUE);
    vram_block_info info{};
    EXPECT_EQ(vram_find_block(pool, &block, &info), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_trim(pool, SIZE_MAX), 0u);
    EXPECT_EQ(vram_limit(pool, kGiB), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_enable_peer(pool, 1), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_begin_capture(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_end_capture(pool), VRAM_INVALID_VALUE);
    vram_stats stats{};
    stats.struct_bytes = sizeof stats;
    EXPECT_EQ(vram_get_stats(pool, &stats), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_reset_peaks(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_reset_sums(pool), VRAM_INVALID_VALUE);
    EXPECT_EQ(vram_visit(pool, [](void*, const vram_part*) { FAIL(); }, nullptr), 0u);
    char text[64] = "untouched";
    EXPECT_EQ(vram_explain_oom(pool, text, sizeof text), 0u);
    EXPECT_EQ(vram_validate(pool, text, sizeof text), 0);
    EXPECT_STREQ(text, "untouched");
    EXPECT_EQ(vram_pool_close(pool), VRAM_INVALID_VALUE);
  }
};

TEST_F(ArgumentsTest, NoPool) {
  expect_refusal(nullptr);
  EXPECT_EQ(vram_pool_open(0, nullptr, nullptr), VRAM_INVALID_VALUE);
}

TEST_F(ArgumentsTest, APoolThatIsClosed) {
  vram_pool* pool = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  ASSERT_EQ(vram_pool_close(pool), VRAM_OK);
  expect_refusal(pool);
}

// Whoever closes twice must not close the pool that somebody has opened since.
TEST_F(ArgumentsTest, AClosedHandleIsNoneOfThePoolThatIsOpenedNext) {
  vram_pool* closed = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &closed), VRAM_OK);
  ASSERT_EQ(vram_pool_close(closed), VRAM_OK);
  vram_pool* pool = open(0);
  expect_refusal(closed);
  void* block = alloc(pool, kMiB);
  EXPECT_EQ(vram_owns(block), 1);
  EXPECT_EQ(vram_free(pool, block), VRAM_OK);
}

TEST_F(ArgumentsTest, EachOpenTakesOneClose) {
  vram_pool* pool = nullptr;
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  ASSERT_EQ(vram_pool_open(0, nullptr, &pool), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_OK);
  EXPECT_EQ(vram_free(pool, alloc(pool, kMiB)), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_OK);
  EXPECT_EQ(vram_pool_close(pool), VRAM_INVALID_VALUE);
}

TEST_F(ArgumentsTest, NoPlaceForAnAnswer) {
  vram_pool* pool = open(0);
  void* block = alloc(pool, kMiB);
  EXPECT_EQ(vram_alloc(pool, 1, nullptr, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_find_block(pool, block, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_get_stats(pool, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_visit(pool, nullptr, nullptr), 0u);
  EXPECT_EQ(vram_validate(pool, nullptr, 100), 1);
  ASSERT_EQ(vram_limit(pool, kMiB), VRAM_OK);
  void* none = nullptr;
  ASSERT_EQ(vram_alloc(pool, kGiB, nullptr, &none), VRAM_OUT_OF_MEMORY);
  EXPECT_GT(vram_explain_oom(pool, nullptr, 100), 20u) << "the length that the text has";
}

TEST_F(ArgumentsTest, OfTheRecorder) {
  EXPECT_EQ(vram_record_start(nullptr, nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_get_record_counts(nullptr), VRAM_INVALID_VALUE);
  const std::string path =
      testing::TempDir() + "vram-arguments-" + std::to_string(getpid()) + ".vtrace";
  ASSERT_EQ(vram_record_start(path.c_str(), nullptr), VRAM_OK) << vram_last_error();
  vram_scope_begin(nullptr);
  vram_name(0, &path, 1, nullptr, nullptr);
  vram_record_about(nullptr, "value");
  vram_record_about("key", nullptr);
  vram_record_setting(nullptr, nullptr);
  vram_record_event(nullptr);
  vram_scope_end();
  EXPECT_EQ(vram_record_path(nullptr, 100), path.size());
  EXPECT_EQ(vram_record_stop(), VRAM_OK) << vram_last_error();
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST_F(ArgumentsTest, OfTheMachineAndTheBoard) {
  EXPECT_EQ(vram_look_device_count(nullptr), 0u);
  EXPECT_EQ(vram_look_missing(nullptr, nullptr, 100), 0u);
  vram_device_info info{};
  info.struct_bytes = sizeof info;
  EXPECT_EQ(vram_look_device(nullptr, 0, &info, nullptr, nullptr), VRAM_INVALID_VALUE);
  vram_look* look = nullptr;
  ASSERT_EQ(vram_look_open(vram::build_path("tests/fake_nvml/3/libnvidia-ml.so.1").c_str(), &look),
            VRAM_OK);
  EXPECT_EQ(vram_look_device(look, 0, nullptr, nullptr, nullptr), VRAM_INVALID_VALUE);
  size_t count = 5;
  EXPECT_EQ(vram_look_device(look, 0, &info, nullptr, &count), VRAM_OK);
  EXPECT_EQ(count, 0u) << "there is no room for any";
  EXPECT_EQ(vram_look_close(look), VRAM_OK);

  EXPECT_EQ(vram_board_post(nullptr), VRAM_INVALID_VALUE);
  const vram_board_figures figures{sizeof figures, 0, 0, nullptr, nullptr, 3};
  EXPECT_EQ(vram_board_post(&figures), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_board_request(nullptr), VRAM_INVALID_VALUE);
  EXPECT_EQ(vram_board_read(1, nullptr), VRAM_INVALID_VALUE);
}

}  // namespace
}  // namespace vram::capi
