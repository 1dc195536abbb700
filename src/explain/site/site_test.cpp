#include "explain/site/site.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

namespace vram::explain {
namespace {

TEST(IsUserFile, KnowsForeignCodeOnEverySystem) {
  for (const char* path : {
           "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
           "/usr/lib/python3/dist-packages/numpy/core.py",
           "C:\\Users\\me\\venv\\Lib\\site-packages\\transformers\\models\\llama.py",
           "/home/me/pytorch/torch/nn/functional.py",
           "/usr/lib/python3.11/runpy.py",
           "/root/.local/share/uv/python/cpython-3.12.3-linux-x86_64-gnu/lib/python3.12/"
           "threading.py",
           "C:\\Python312\\Lib\\contextlib.py",
           "C:\\Users\\me\\miniconda3\\envs\\train\\Lib\\threading.py",
           "/usr/lib/python311.zip/runpy.py",
           "<frozen importlib._bootstrap>",
           "<eval_with_key>.0",
           "<string>",
           "/tmp/torchinductor_me/ab/cabcdef.py",
           "/build/aten/src/ATen/native/Copy.cpp",
           "libtorch_cuda.so",
           "??",
           "",
       }) {
    EXPECT_FALSE(is_user_file(path)) << path;
  }
}

TEST(IsUserFile, KnowsTheUsersCode) {
  for (const char* path : {
           "/home/me/train.py",
           "train.py",
           "/home/me/torch/train.py",  // a folder that happens to be called torch
           "/home/me/torch/experiments/nn.py",
           "C:\\work\\Lib\\train.py",  // not an interpreter's Lib
           "D:\\project\\src\\model.py",
           "/home/me/python/model.py",
           "/tmp/ipykernel_4242/1234567.py",
           "<ipython-input-3-abc>",
           "<stdin>",
       }) {
    EXPECT_TRUE(is_user_file(path)) << path;
  }
}

class UserFrameTest : public ::testing::Test {
 protected:
  trace::FrameId frame(const char* file, uint32_t line, const char* function, const char* fx = "") {
    return tables.frames.intern({tables.strings.intern(function), tables.strings.intern(file), line,
                                 0, tables.strings.intern(fx)});
  }
  trace::Tables tables;
};

TEST_F(UserFrameTest, IsTheInnermostOfTheUsers) {
  const trace::FrameId frames[] = {
      frame("", 0, "at::empty_cuda"), frame("/x/site-packages/torch/nn/functional.py", 7, "linear"),
      frame("/home/me/model.py", 42, "forward"), frame("/home/me/train.py", 9, "<module>")};
  const trace::StackId stack = tables.stacks.intern(frames);
  EXPECT_EQ(user_frame_index(tables, stack), 2U);
  UserFrames cached(tables);
  EXPECT_EQ(cached.index(stack), 2U);
  EXPECT_EQ(cached.index(stack), 2U);
  EXPECT_EQ(cached.frame(stack), frames[2]);
  EXPECT_EQ(frame_name(tables, tables.frames[frames[2]]), "model.py:42 forward");
}

TEST_F(UserFrameTest, FallsBackToTheInnermostWithAFile) {
  const trace::FrameId frames[] = {frame("??", 0, "malloc"),
                                   frame("/x/site-packages/torch/storage.py", 3, "clone")};
  const trace::StackId stack = tables.stacks.intern(frames);
  EXPECT_EQ(user_frame_index(tables, stack), 2U);
  UserFrames cached(tables);
  EXPECT_EQ(cached.frame(stack), frames[1]);
  EXPECT_EQ(cached.frame(0), 0U);
  EXPECT_EQ(frame_name(tables, tables.frames[frames[0]]), "malloc");
}

// Stacks with C++ frames begin in PyTorch's recorder and allocator, which take all memory.
TEST_F(UserFrameTest, TheRecorderAndTheAllocatorAreNoPlaces) {
  const trace::FrameId frames[] = {
      frame("??", 0, "torch::unwind::unwind()"),
      frame("??", 0, "torch::CapturedTraceback::gather(bool, bool, bool)"),
      frame("memory_snapshot.cpp", 0, "torch::cuda::(anonymous namespace)::gather_with_cpp()"),
      frame(
          "CUDACachingAllocator.cpp", 0,
          "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long)"),
      frame("RegisterCUDA_0.cpp", 0,
            "at::(anonymous namespace)::(anonymous namespace)::wrapper_CUDA_memory_format_empty()"),
      frame("??", 0, "at::native::cudnn_batch_norm_backward(at::Tensor const&)"),
      frame("VariableType_0.cpp", 0,
            "torch::autograd::VariableType::(anonymous namespace)::cudnn_batch_norm_backward("
            "c10::DispatchKeySet, at::Tensor const&)"),
      frame("??", 0, "__clone")};
  const trace::StackId stack = tables.stacks.intern(frames);
  EXPECT_EQ(UserFrames(tables).frame(stack), frames[6]);
  EXPECT_EQ(frame_name(tables, tables.frames[frames[6]]),
            "VariableType_0.cpp torch::autograd::VariableType::(anonymous "
            "namespace)::cudnn_batch_norm_backward");
  const trace::StackId without_file = tables.stacks.intern(std::span(frames).first(6));
  EXPECT_EQ(UserFrames(tables).frame(without_file), frames[5]);
  EXPECT_EQ(frame_name(tables, tables.frames[frames[5]]), "at::native::cudnn_batch_norm_backward");
  const trace::StackId nothing_else = tables.stacks.intern(std::span(frames).first(3));
  EXPECT_EQ(UserFrames(tables).frame(nothing_else), frames[0]);
}

TEST_F(UserFrameTest, GeneratedCodeShowsTheUsersLineBehindIt) {
  const trace::FrameId generated =
      frame("<eval_with_key>.3", 12, "forward",
            "File \"/home/me/train.py\", line 7, in main\n    y = net(x)\n"
            "File \"/home/me/net.py\", line 33, in forward\n    return self.a(x)");
  const trace::FrameId frames[] = {generated, frame("/home/me/train.py", 7, "main")};
  const trace::StackId stack = tables.stacks.intern(frames);
  EXPECT_EQ(user_frame_index(tables, stack), 0U);
  EXPECT_EQ(frame_name(tables, tables.frames[generated]), "net.py:33 forward");
}

TEST_F(UserFrameTest, NamesSurviveMissingParts) {
  EXPECT_EQ(frame_name(tables, {}), "unknown");
  EXPECT_EQ(frame_name(tables, tables.frames[frame("C:\\w\\a.py", 0, "f")]), "a.py f");
  EXPECT_EQ(frame_name(tables, tables.frames[frame("/w/a.py", 5, "")]), "a.py:5");
}

TEST_F(UserFrameTest, ReportStackKeepsOrderAndPaths) {
  const trace::FrameId frames[] = {frame("/w/a.py", 5, "f"), frame("/w/b.py", 6, "g")};
  uint64_t room_bytes = kMaxStacksBytes;
  const std::vector<Frame> stack = report_stack(tables, tables.stacks.intern(frames), room_bytes);
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(stack[0].function, "f");
  EXPECT_EQ(stack[1].file, "/w/b.py");
  EXPECT_EQ(stack[1].line, 6U);
}

TEST_F(UserFrameTest, TruncatesTextsThatFramesShare) {
  const std::string file = "/w/" + std::string(1 << 20, 'a');
  std::vector<trace::FrameId> frames;
  for (uint32_t line = 1; line <= 600; ++line)
    frames.push_back(this->frame(file.c_str(), line, "f"));
  uint64_t room_bytes = kMaxStacksBytes;
  const std::vector<Frame> stack = report_stack(tables, tables.stacks.intern(frames), room_bytes);
  ASSERT_EQ(stack.size(), 600U);
  for (const Frame& frame : stack)
    ASSERT_EQ(frame.file, file.substr(0, trace::kMaxNameBytes) + "…");
  EXPECT_EQ(frame_name(tables, tables.frames[frames[0]]),
            std::string(trace::kMaxNameBytes, 'a') + "…:1 f");
}

TEST_F(UserFrameTest, StacksBeyondTheRoomShowHowManyFramesAreMissing) {
  const trace::FrameId frames[] = {frame("/w/a.py", 5, "f"), frame("/w/b.py", 6, "g"),
                                   frame("/w/c.py", 7, "h")};
  const trace::StackId id = tables.stacks.intern(frames);
  const uint64_t frame_bytes = sizeof(Frame) + std::string("/w/a.pyf").size();
  uint64_t room_bytes = 4 * frame_bytes + 1;
  EXPECT_EQ(report_stack(tables, id, room_bytes).size(), 3U);
  const std::vector<Frame> second = report_stack(tables, id, room_bytes);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].function, "f");
  EXPECT_EQ(second[1].function, "(2 more frames)");
  EXPECT_EQ(second[1].file, "");
  EXPECT_EQ(room_bytes, 1U);
}

}  // namespace
}  // namespace vram::explain
