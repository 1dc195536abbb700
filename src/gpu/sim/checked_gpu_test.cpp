// What the checked GPU finds, and what it lets pass.
#include "gpu/sim/checked_gpu.hpp"

#include "base/bytes.hpp"
#include "gpu/testing/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vram::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr StreamHandle kA = 1;
constexpr StreamHandle kB = 2;
// Two handles side by side, and the second one mapped again elsewhere.
class CheckedGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(gpu_.reserve(16 * kMiB, &home_), Status::kOk);
    for (const uint64_t offset : {uint64_t{0}, kPage}) map_new(home_ + offset);
    alias_ = home_ + 8 * kMiB;
    map(alias_, last_);
  }
  void map_new(Address address) {
    ASSERT_EQ(gpu_.create(0, kPage, &last_), Status::kOk);
    map(address, last_);
  }
  void map(Address address, Handle handle) {
    ASSERT_EQ(gpu_.map(address, kPage, handle), Status::kOk);
    ASSERT_EQ(gpu_.set_access(address, kPage, 0), Status::kOk);
  }
  void write(StreamHandle stream, Address address, uint64_t bytes, uint64_t tag = 7) {
    gpu_.work(stream, {{address, bytes, tag, true}});
  }
  void read(StreamHandle stream, Address address, uint64_t bytes, uint64_t tag = 7) {
    gpu_.work(stream, {{address, bytes, tag, false}});
  }
  EventHandle record(StreamHandle stream) {
    EventHandle event = 0;
    EXPECT_EQ(gpu_.record(0, stream, &event), Status::kOk);
    return event;
  }

  CheckedGpu gpu_;
  Address home_ = 0;
  Address alias_ = 0;
  Handle last_ = 0;
};

TEST_F(CheckedGpuTest, AStreamIsInOrderWithItself) {
  write(kA, home_, 2 * kPage);
  read(kA, home_ + kMiB, 2 * kMiB);
  write(kA, alias_, kPage, 8);
  read(kA, home_ + kPage, kPage, 8);
  gpu_.finish_work();
  EXPECT_THAT(gpu_.violations(), IsEmpty());
}

TEST_F(CheckedGpuTest, TwoUnorderedWritersOfOneHandleAtTwoAddresses) {
  write(kA, home_ + kPage + kMiB, kMiB);
  write(kB, alias_ + kMiB + 4096, 512);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("work 1 of stream 2 writes 512 bytes")));
  write(kB, alias_, 512);  // which the other does not touch
  EXPECT_EQ(gpu_.violation_count(), 1u);
}

TEST_F(CheckedGpuTest, AReaderAndAWriter) {
  write(kA, home_, kPage);
  ASSERT_EQ(gpu_.synchronize(0), Status::kOk);
  read(kA, home_, kPage);
  read(kB, home_, kPage);
  EXPECT_THAT(gpu_.violations(), IsEmpty()) << "both read";
  write(kB, home_, 512);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("work 2 of stream 1, which reads")));
}

TEST_F(CheckedGpuTest, AnEventOrdersWhatWasQueuedBeforeIt) {
  write(kA, home_, kPage);
  const EventHandle event = record(kA);
  write(kA, home_ + kPage, kPage);
  ASSERT_EQ(gpu_.stream_wait(0, kB, event), Status::kOk);
  read(kB, home_, kPage);
  EXPECT_THAT(gpu_.violations(), IsEmpty());
  read(kB, alias_, kPage);
  EXPECT_EQ(gpu_.violation_count(), 1u) << "queued behind the event";
}

TEST_F(CheckedGpuTest, WhatTheHostHasSeenIsBeforeWhatItQueues) {
  write(kA, home_, kPage);
  const EventHandle event = record(kA);
  EXPECT_EQ(gpu_.query(event), Status::kNotReady);
  ASSERT_TRUE(gpu_.step(0));
  EXPECT_EQ(gpu_.query(event), Status::kOk);
  write(kB, home_, kPage);
  EXPECT_THAT(gpu_.violations(), IsEmpty());
}

// That it has run by chance is not enough: the host must know.
TEST_F(CheckedGpuTest, UnmappedUnderUnfinishedWork) {
  write(kA, alias_, 512);
  ASSERT_TRUE(gpu_.step(0));
  ASSERT_EQ(gpu_.unmap(alias_, kPage), Status::kOk);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("unmap of 2097152 bytes")));
}

TEST_F(CheckedGpuTest, UnmappedBesideUnfinishedWork) {
  write(kA, home_ + kPage, kPage);  // the same memory, by another address
  ASSERT_EQ(gpu_.unmap(alias_, kPage), Status::kOk);
  ASSERT_EQ(gpu_.synchronize(0), Status::kOk);
  ASSERT_EQ(gpu_.unmap(home_, 2 * kPage), Status::kOk);
  EXPECT_THAT(gpu_.violations(), IsEmpty());
}

TEST_F(CheckedGpuTest, AccessesChangeUnderUnfinishedWork) {
  CheckedGpu gpu({.devices = {SimDevice{}, SimDevice{}}});
  Address base = 0;
  Handle handle = 0;
  ASSERT_EQ(gpu.reserve(kPage, &base), Status::kOk);
  ASSERT_EQ(gpu.create(0, kPage, &handle), Status::kOk);
  ASSERT_EQ(gpu.map(base, kPage, handle), Status::kOk);
  ASSERT_EQ(gpu.set_access(base, kPage, 0), Status::kOk);
  gpu.work(kA, {{base, 512, 1, true}});
  ASSERT_EQ(gpu.set_access(base, kPage, 0), Status::kOk);
  EXPECT_THAT(gpu.violations(), IsEmpty()) << "nothing changed";
  ASSERT_EQ(gpu.set_access(base, kPage, 1), Status::kOk);
  EXPECT_THAT(gpu.violations(), ElementsAre(HasSubstr("change of access")));
}

TEST_F(CheckedGpuTest, AReadFindsWhatAnotherBlockWrote) {
  write(kA, home_, kPage, 1);
  write(kA, home_ + 512, 512, 2);
  read(kA, home_, kPage, 1);
  EXPECT_THAT(gpu_.violations(), IsEmpty()) << "not run yet";
  gpu_.finish_work();
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("reads 2 at")));
}

TEST_F(CheckedGpuTest, MemoryThatIsNotThere) {
  write(kA, home_ + kPage, 2 * kPage);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("where no memory is")));
}

TEST_F(CheckedGpuTest, AStreamThatHasEnded) {
  write(kA, home_, kPage);
  gpu_.end_stream(kA);
  (void)record(kA);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("an event is recorded in stream 1")));
}

TEST_F(CheckedGpuTest, ANewStreamIsNotInOrderWithTheOldOneOfThatHandle) {
  write(kA, home_, kPage);
  gpu_.end_stream(kA);
  gpu_.begin_stream(kA);
  write(kA, home_, kPage);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("in no order with work 1 of stream 1")));
}

TEST_F(CheckedGpuTest, AWaitThatClosesACycle) {
  gpu_.work(kA, {}, 5);
  ASSERT_EQ(gpu_.stream_wait(0, kB, record(kA)), Status::kOk);
  gpu_.work(kB, {}, 0, 5);
  gpu_.finish_work();
  EXPECT_THAT(gpu_.violations(), ElementsAre("work waits for what never comes"));
}

TEST_F(CheckedGpuTest, ACapturedStreamsWorkRunsWhenTheCaptureHasEnded) {
  write(kA, home_, kPage);
  const EventHandle before = record(kA);
  gpu_.begin_capture(kA);
  write(kA, home_ + kPage, kPage);
  EventHandle none = 0;
  EXPECT_EQ(gpu_.record(0, kA, &none), Status::kNotReady);
  EXPECT_EQ(gpu_.stream_wait(0, kA, before), Status::kNotReady);
  EXPECT_EQ(gpu_.wait(before), Status::kOk);
  gpu_.finish_work();
  EXPECT_THAT(gpu_.violations(), IsEmpty());
  EXPECT_EQ(gpu_.unmap(home_, kPage), Status::kOk);
  gpu_.end_capture(kA);
  EXPECT_EQ(gpu_.wait(record(kA)), Status::kOk);
  EXPECT_EQ(gpu_.unmap(home_ + kPage, kPage), Status::kOk);
  EXPECT_THAT(gpu_.violations(), IsEmpty());
}

TEST_F(CheckedGpuTest, MemoryThatCapturedWorkNamesIsInUse) {
  gpu_.begin_capture(kA);
  write(kA, home_, kPage);
  gpu_.finish_work();
  EXPECT_EQ(gpu_.unmap(home_, kPage), Status::kOk);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("unmap of")));
}

TEST_F(CheckedGpuTest, WaitingForTheDeviceBreaksACapture) {
  gpu_.begin_capture(kA);
  EXPECT_EQ(gpu_.synchronize(0), Status::kNotReady);
  EXPECT_THAT(gpu_.violations(), ElementsAre(HasSubstr("while a stream is captured")));
}

TEST_F(CheckedGpuTest, AFlagIsNoOrder) {
  gpu_.work(kA, {}, 5);
  gpu_.work(kB, {}, 0, 5);
  gpu_.finish_work();
  EXPECT_THAT(gpu_.violations(), IsEmpty());
}

}  // namespace
}  // namespace vram::gpu
