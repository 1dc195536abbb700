// What amdgpu says of a card's bad memory.
#include "gpu/drm/card.hpp"

#include "base/testing/paths.hpp"
#include "gpu/testing/recorded_tree.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram::gpu::drm {
namespace {

constexpr const char* kPages = "sys/class/drm/card2/device/ras/gpu_vram_bad_pages";

class RasTest : public testing::Test {
 protected:
  RasTest() : tree(data_path("drm/amdgpu_6.8_kfd.tree")) {
    card = find_cards(files, tree.roots().sys).at(0);
  }
  std::optional<RetiredPages> pages_of(const std::string& list) {
    tree.write(kPages, list);
    return read_bad_pages(files, card);
  }
  RecordedTree tree;
  Files files;
  Card card;
};

TEST_F(RasTest, BadPagesAreCountedByWhatBecameOfThem) {
  EXPECT_FALSE(read_bad_pages(files, card).has_value());  // no such file
  const RetiredPages none = pages_of("").value();
  EXPECT_EQ(none.of_any_cause, 0u);
  EXPECT_EQ(none.is_pending, false);
  EXPECT_EQ(none.has_failed, false);
  const RetiredPages some = pages_of(
                                "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : R\n"
                                "0x00000003 : 0x00001000 : P\n")
                                .value();
  EXPECT_EQ(some.of_any_cause, 2u);
  EXPECT_EQ(some.is_pending, true);
  EXPECT_EQ(some.has_failed, false);
  EXPECT_FALSE(some.corrected || some.uncorrected);
  EXPECT_EQ(pages_of("0x00000001 : 0x00001000 : F\n").value().has_failed, true);
}

TEST_F(RasTest, AListThatIsCutOffOrNotUnderstoodIsUnknown) {
  const std::string line = "0x00000001 : 0x00001000 : R\n";
  EXPECT_FALSE(pages_of(line + "0x00000002 : 0x0000").has_value());
  EXPECT_FALSE(pages_of(line + "0x00000002 : 0x00001000 : X\n").has_value());
  EXPECT_FALSE(pages_of("nothing is wrong\n").has_value());
  std::string list;
  while (list.size() + line.size() <= Files::kMaxBytes - 256) list += line;
  EXPECT_EQ(pages_of(list).value().of_any_cause, list.size() / line.size());
  // There is room for it, but would there be for one more? The kernel gives whole lines alone.
  EXPECT_FALSE(pages_of(list + line).has_value());
  EXPECT_FALSE(pages_of(list + list).has_value());
}

TEST_F(RasTest, NewerCardsCountErrorsInAnotherFile) {
  EXPECT_EQ(read_ecc(files, card).corrected, 17u);
  tree.remove("sys/class/drm/card2/device/ras/umc_err_count");
  EXPECT_FALSE(read_ecc(files, card).corrected || read_ecc(files, card).uncorrected);
  tree.write("sys/class/drm/card2/device/ras/aca_umc", "ue: 3\nce: 40\nde: 5\n");
  EXPECT_EQ(read_ecc(files, card).corrected, 40u);
  EXPECT_EQ(read_ecc(files, card).uncorrected, 3u);
}

}  // namespace
}  // namespace vram::gpu::drm
