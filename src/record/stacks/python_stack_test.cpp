// PythonStacks and GilThread against an interpreter that does what tests say: this program shows
// the functions of CPython that are looked for.
#include "record/stacks/python_stack.hpp"

#include "record/stacks/describe.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <string>
#include <thread>

namespace vram::record {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
  std::function<void()> at_attribute;
  std::function<void()> at_ensure;
};

FakePython& fake_python() {
  static FakePython& one = *new FakePython;
  return one;
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
    fake_python().at_attribute = nullptr;
    fake_python().at_ensure = nullptr;
    innermost = nullptr;
    is_attached = false;
  }
  static std::string name_of(StackId stack) {
    const auto frames = stores().stacks.frames(stack);
    return frames.empty() ? "" : describe_frame(frames.front()).function;
  }

 private:
  FakeCode& code_ = *new FakeCode{testing::UnitTest::GetInstance()->current_test_info()->name()};
  FakeFrame frame_{.code = &code_};
};

TEST_F(PythonStacksTest, FramesAreNamed) {
  const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
  EXPECT_EQ(name_of(PythonStacks::capture()), name);
  EXPECT_EQ(name_of(PythonStacks::try_capture()), name) << "by the thread that takes the GIL";
  is_attached = true;
  EXPECT_EQ(name_of(PythonStacks::try_capture()), name) << "by this thread";
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
  fake_python().at_attribute = [&] {
    fake_python().at_attribute = nullptr;
    other = std::thread([&] {
      innermost = shared;
      is_attached = true;
      (void)PythonStacks::try_capture();
      has_captured = true;
    });
    for (int i = 0; i < 500 && !has_captured; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_TRUE(has_captured) << "a lock was held while Python was called";
  };
  is_attached = true;
  const StackId stack = PythonStacks::try_capture();
  other.join();
  EXPECT_EQ(PythonStacks::try_capture(), stack) << "both have the one number";
}

TEST_F(PythonStacksTest, AThreadWaitsForTheGilForAWhileAlone) {
  const std::unique_lock held_by_another(fake_python().gil);
  std::thread other([frame = innermost] {
    innermost = frame;
    const auto start = Clock::now();
    EXPECT_EQ(PythonStacks::try_capture(), 0U);
    EXPECT_LT(Clock::now() - start, milliseconds(5000));
    const auto again = Clock::now();
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(PythonStacks::try_capture(), 0U);
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
      EXPECT_EQ(PythonStacks::try_capture(), 0U);
    }).join();
  }
  StackId stack = 0;
  for (int i = 0; i < 500 && stack == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    stack = PythonStacks::try_capture();
  }
  EXPECT_NE(stack, 0U);
}

// What Python up to 3.13 does to threads that want the GIL while it ends. The last test: nobody
// asks for the GIL after it.
TEST_F(PythonStacksTest, AnInterpreterThatEndsMayEndTheThread) {
  fake_python().at_ensure = [] { pthread_exit(nullptr); };
  EXPECT_EQ(PythonStacks::try_capture(), 0U);
  EXPECT_EQ(PythonStacks::try_capture(), 0U);
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
  if (fake_python().at_ensure) fake_python().at_ensure();
  fake_python().gil.lock();
  return 0;
}
void PyGILState_Release(int) { fake_python().gil.unlock(); }
Object* PyThreadState_GetFrame(Object* thread) { return thread; }
Object* PyFrame_GetBack(Object* frame) { return static_cast<FakeFrame*>(frame)->back; }
Object* PyFrame_GetCode(Object* frame) { return static_cast<FakeFrame*>(frame)->code; }
int PyFrame_GetLineNumber(Object*) { return 7; }
Object* PyObject_GetAttrString(Object* object, const char* name) {
  if (const auto hook = fake_python().at_attribute; hook) hook();
  auto* const code = static_cast<FakeCode*>(object);
  return new std::string(std::string_view(name) == "co_filename" ? "fake.py" : code->name);
}
Object* PyUnicode_AsEncodedString(Object* text, const char*, const char*) {
  return new std::string(*static_cast<std::string*>(text));
}
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

}  // namespace vram::record
