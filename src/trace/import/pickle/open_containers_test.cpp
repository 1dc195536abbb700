#include "trace/import/pickle/open_containers.hpp"

#include "trace/testing/tree_sink.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace vram::trace::pickle {
namespace {

class OpenContainersTest : public testing::Test {
 protected:
  OpenContainersTest() { stack_.make_room(2 * size_t{kMaxOpen}); }
  Value begin(Kind kind) {
    EXPECT_TRUE(open_.begin(kind));
    return stack_.back();
  }
  // As MEMOIZE does.
  void memoize(uint64_t index) {
    memo_.store(index, stack_.back());
    open_.stored(stack_.back(), index);
  }

  ValueStack stack_;
  Marks marks_;
  Memo memo_;
  std::unique_ptr<TreeSink> sink_ = std::make_unique<TreeSink>();
  OpenContainers open_{stack_, marks_, memo_, *sink_};
};

TEST_F(OpenContainersTest, ADictionaryIsCompleteWhenAContainerFollowsRightAbove) {
  const Value first = begin(Kind::kOpenDict);
  const Value second = begin(Kind::kOpenList);
  EXPECT_FALSE(open_.is_current(first));
  EXPECT_EQ(stack_[0].kind(), Kind::kRecord);
  EXPECT_TRUE(open_.is_current(second));
}

TEST_F(OpenContainersTest, AMarkInBetweenLeavesItOpen) {
  const Value dict = begin(Kind::kOpenDict);
  marks_.push(stack_.size());
  (void)begin(Kind::kOpenDict);
  EXPECT_TRUE(open_.is_current(dict));
}

TEST_F(OpenContainersTest, OfTooManyListsTheFirstAreComplete) {
  const Value first = begin(Kind::kOpenList);
  for (unsigned i = 1; i < kMaxOpen; ++i) (void)begin(Kind::kOpenList);
  EXPECT_TRUE(open_.is_current(first));
  const Value last = begin(Kind::kOpenList);
  EXPECT_FALSE(open_.is_current(first));
  EXPECT_TRUE(open_.is_current(last));
}

TEST_F(OpenContainersTest, UnderMarksNothingIsCompleteSoThereIsALimit) {
  for (unsigned i = 0; i < kMaxOpen; ++i) {
    marks_.push(stack_.size());
    (void)begin(Kind::kOpenList);
  }
  marks_.push(stack_.size());
  EXPECT_FALSE(open_.begin(Kind::kOpenList));
}

TEST_F(OpenContainersTest, ARecordTakesTheContainersPlaceInTheMemo) {
  (void)begin(Kind::kOpenList);
  memoize(0);
  open_.close_from(0);
  EXPECT_EQ(memo_.find(0).kind(), Kind::kRecord);
  EXPECT_EQ(memo_.find(0), stack_[0]);
}

TEST_F(OpenContainersTest, TheMemoForgetsWhatIsDiscarded) {
  const Value list = begin(Kind::kOpenList);
  memoize(0);
  open_.discard(list);
  EXPECT_FALSE(open_.is_current(list));
  EXPECT_EQ(memo_.find(0).kind(), Kind::kNone);
}

}  // namespace
}  // namespace vram::trace::pickle
