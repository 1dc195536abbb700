// PythonStacks and GilThread against an interpreter that does what tests say: this program shows
// the functions of CPython that are looked for.
#include "record/stacks/python_stack.hpp"

#include "record/stacks/frame_layout.hpp"
#include "record/stacks/native_stack.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace vram::record {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTimeout{10};

struct FakeCode {
  std::string name;
};
struct FakeFrame {
  FakeCode* code = nullptr;
  FakeFrame* back = nullptr;
};
struct FakePython {
  std::atomic<bool> is_on{false};
  std::recursive_timed_mutex gil;
  std::atomic<bool> is_ending{false};
  std::atomic<const std::function<void()>*> at_attribute{nullptr};  // once
};

FakePython& fake_python() {
  static FakePython& one = *new FakePython;
  return one;
}

// Kept for good, as objects are not counted.
template <typename Object>
Object* kept(Object object) {
  static std::mutex lock;
  static auto& all = *new std::deque<Object>;
  const std::lock_guard guard(lock);
  return &all.emplace_back(std::move(object));
}

// The thread's state is its innermost frame.
thread_local FakeFrame* innermost = nullptr;
thread_local bool is_attached = false;

class PythonStacksTest : public testing::Test {
 protected:
  PythonStacksTest() {
    fake_python().is_on = true;
    innermost = &frame_;
  }
  ~PythonStacksTest() override {
    fake_python().is_on = false;
    fake_python().is_ending = false;
    innermost = nullptr;
    is_attached = false;
  }
  static std::string name_of(StackId stack) {
    const auto frames = stores().stacks.frames(stack);
    return frames.empty() ? "" : describe_frame(frames.front()).function;
  }
  // Where the GIL is free, but the machine may be slow.
  static StackId capture_patiently() {
    StackId stack = 0;
    for (int i = 0; i < 500 && stack == 0; ++i) {
      stack = PythonStacks::try_capture(kTimeout);
      if (stack == 0) std::this_thread::sleep_for(milliseconds(10));
    }
    return stack;
  }

 private:
  FakeCode& code_ = *kept(FakeCode{testing::UnitTest::GetInstance()->current_test_info()->name()});
  FakeFrame frame_{.code = &code_};
};

TEST_F(PythonStacksTest, FramesAreNamed) {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  EXPECT_EQ(name_of(PythonStacks::capture()), name);
  EXPECT_EQ(name_of(capture_patiently()), name) << "by the thread that takes the GIL";
  is_attached = true;
  EXPECT_EQ(name_of(PythonStacks::try_capture(kTimeout)), name) << "by this thread";
}

TEST(FrameLayoutTest, ARuntimeWithoutTheGilIsRecognized) {
  constexpr std::array kCookie = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
  EXPECT_TRUE(has_gil({.cookie = kCookie, .version = 0x030d02f0}));
  EXPECT_FALSE(has_gil({.cookie = kCookie, .version = 0x030d02f0, .is_free_threaded = 1}));
  EXPECT_FALSE(has_gil({}));
}

// As a program that generates code does.
TEST_F(PythonStacksTest, LimitedPlacesAreForgottenBeyondTheLimit) {
  is_attached = true;
  PythonStacks::set_limited(true);
  FakeCode* const reused = kept(FakeCode{"before"});
  for (size_t i = 0; i <= PythonStacks::kMaxPlaces; ++i) {
    FakeFrame frame{.code = kept(FakeCode{"generated"})};
    innermost = &frame;
    (void)PythonStacks::capture();
  }
  FakeFrame frame{.code = reused};
  innermost = &frame;
  EXPECT_EQ(name_of(PythonStacks::capture()), "?");
  PythonStacks::set_limited(false);
  reused->name = "after";  // other code at the same address
  EXPECT_EQ(name_of(PythonStacks::capture()), "after");
}

TEST_F(PythonStacksTest, NumbersOfNoFrameAreDescribedToo) {
  EXPECT_EQ(describe_frame(kNativeFrame - 1).function, "?");
  EXPECT_EQ(describe_frame(~FrameNumber{0}).function, "?");
}

// As a free-threaded interpreter does, or one whose look-up runs Python code.
TEST_F(PythonStacksTest, AnotherThreadMayRunWhileAFrameIsLookedUp) {
  std::atomic<bool> has_captured{false};
  std::thread other;
  FakeFrame* const shared = innermost;
  const std::function<void()> let_another_run = [&] {
    other = std::thread([&] {
      innermost = shared;
      is_attached = true;
      (void)PythonStacks::try_capture(kTimeout);
      has_captured = true;
    });
    for (int i = 0; i < 500 && !has_captured; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_TRUE(has_captured) << "a lock was held while Python was called";
  };
  fake_python().at_attribute = &let_another_run;
  is_attached = true;
  const StackId stack = PythonStacks::try_capture(kTimeout);
  other.join();
  EXPECT_EQ(PythonStacks::try_capture(kTimeout), stack) << "both have the one number";
}

TEST_F(PythonStacksTest, AThreadWaitsForTheGilForAWhileAlone) {
  const std::unique_lock held_by_another(fake_python().gil);
  std::thread other([frame = innermost] {
    innermost = frame;
    const auto start = Clock::now();
    EXPECT_EQ(PythonStacks::try_capture(kTimeout), 0U);
    EXPECT_LT(Clock::now() - start, milliseconds(5000));
    const auto again = Clock::now();
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(PythonStacks::try_capture(kTimeout), 0U);
    EXPECT_LT(Clock::now() - again, milliseconds(5000)) << "each waits for the same GIL anew";
    innermost = nullptr;
  });
  other.join();
}

TEST_F(PythonStacksTest, ItReadsStacksAgainOnceTheGilWasFree) {
  {
    const std::unique_lock held_by_another(fake_python().gil);
    std::thread([frame = innermost] {
      innermost = frame;
      EXPECT_EQ(PythonStacks::try_capture(kTimeout), 0U);
    }).join();
  }
  EXPECT_NE(capture_patiently(), 0U);
}

TEST_F(PythonStacksTest, EachThreadIsGivenItsOwnStackOrNone) {
  std::atomic<bool> is_over{false};
  std::atomic<int> found{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&found, number] {
      auto& code = *kept(FakeCode{"thread " + std::to_string(number)});
      FakeFrame frame{.code = &code};
      innermost = &frame;
      for (int i = 0; i < 300; ++i) {
        const StackId stack = i == 299 ? capture_patiently() : PythonStacks::try_capture(kTimeout);
        if (stack == 0) continue;
        EXPECT_EQ(name_of(stack), code.name);
        ++found;
      }
      innermost = nullptr;
    });
  }
  std::thread holder([&is_over] {
    for (int i = 0; !is_over; i = (i + 5) % 16) {
      std::unique_lock held(fake_python().gil);
      std::this_thread::sleep_for(milliseconds(i));
      held.unlock();
      std::this_thread::sleep_for(milliseconds(2));
    }
  });
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  holder.join();
  EXPECT_GT(found, 0);
}

// What Python up to 3.13 does to threads that want the GIL while it ends. The last test: no thread
// asks for the GIL after it.
TEST_F(PythonStacksTest, AnInterpreterThatEndsMayEndTheThread) {
  fake_python().is_ending = true;
  EXPECT_EQ(PythonStacks::try_capture(kTimeout), 0U);
  EXPECT_EQ(PythonStacks::try_capture(kTimeout), 0U);
}

}  // namespace

using Object = void;

// NOLINTBEGIN(readability-identifier-naming): CPython's names
extern "C" {
#pragma GCC visibility push(default)

int Py_IsInitialized() { return fake_python().is_on ? 1 : 0; }
Object* PyGILState_GetThisThreadState() { return innermost; }
Object* _PyThreadState_UncheckedGet() { return is_attached ? innermost : nullptr; }
int PyGILState_Ensure() {
  if (fake_python().is_ending) pthread_exit(nullptr);
  fake_python().gil.lock();
  return 0;
}
void PyGILState_Release(int) { fake_python().gil.unlock(); }
Object* PyThreadState_GetFrame(Object* thread) { return thread; }
Object* PyFrame_GetBack(Object* frame) { return static_cast<FakeFrame*>(frame)->back; }
Object* PyFrame_GetCode(Object* frame) { return static_cast<FakeFrame*>(frame)->code; }
int PyFrame_GetLineNumber(Object*) { return 7; }
Object* PyObject_GetAttrString(Object* object, const char* name) {
  if (const auto* hook = fake_python().at_attribute.exchange(nullptr); hook != nullptr) (*hook)();
  auto* const code = static_cast<FakeCode*>(object);
  return kept(std::string_view(name) == "co_filename" ? std::string("fake.py") : code->name);
}
Object* PyUnicode_AsEncodedString(Object* text, const char*, const char*) { return text; }
const char* PyBytes_AsString(Object* bytes) { return static_cast<std::string*>(bytes)->c_str(); }
ptrdiff_t PyBytes_Size(Object* bytes) {
  return static_cast<ptrdiff_t>(static_cast<std::string*>(bytes)->size());
}
void PyErr_Fetch(Object** type, Object** value, Object** traceback) {
  *type = *value = *traceback = nullptr;
}
void PyErr_Restore(Object*, Object*, Object*) {}
void Py_IncRef(Object*) {}
void Py_DecRef(Object*) {}

#pragma GCC visibility pop
}
// NOLINTEND(readability-identifier-naming)

// NativeStacks: what the unwinder finds has names.

namespace {

// This program and vram are one file here, so that vram's own frames are the program's, too: those
// of the C library that started it are left.
TEST(NativeStacks, FramesNameFunctionsAndLibraries) {
  const StackId stack = NativeStacks::capture();
  const auto frames = stores().stacks.frames(stack);
  ASSERT_FALSE(frames.empty());
  for (const FrameNumber frame : frames) {
    EXPECT_NE(NativeStacks::describe(frame).file, "");
    EXPECT_NE(NativeStacks::describe(frame).function, "");
  }
  EXPECT_EQ(NativeStacks::capture(), stack) << "the frames outside are the same";
}

}  // namespace
}  // namespace vram::record
