#include "record/stacks/native_stack.hpp"

#include "record/stacks/python_stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unwind.h>
#include <vector>

namespace vram::record {
namespace {

class Counters {
 public:
  FrameNumber number_of(uintptr_t counter) {
    const std::lock_guard guard(lock_);
    const auto [found, is_new] = numbers_.try_emplace(counter, 0);
    if (is_new) {
      found->second = kNativeFrame | static_cast<FrameNumber>(counters_.size());
      counters_.push_back(counter);
    }
    return found->second;
  }
  std::optional<uintptr_t> counter(FrameNumber number) {
    const size_t index = number ^ kNativeFrame;
    const std::lock_guard guard(lock_);
    return index < counters_.size() ? std::optional(counters_[index]) : std::nullopt;
  }

 private:
  ForkLock lock_;
  std::unordered_map<uintptr_t, FrameNumber> numbers_;
  std::vector<uintptr_t> counters_;
};

Counters& counters() {
  static Counters& all = *new Counters;
  return all;
}

struct Walk {
  std::array<uintptr_t, NativeStacks::kMaxFrames> counters;
  size_t count = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* into) {
  auto& walk = *static_cast<Walk*>(into);
  const uintptr_t counter = _Unwind_GetIP(context);
  if (counter == 0 || walk.count == walk.counters.size()) return _URC_END_OF_STACK;
  walk.counters[walk.count++] = counter - 1;  // a return address: the call lies before it
  return _URC_NO_REASON;
}

Dl_info library_of(uintptr_t counter) {
  Dl_info info{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a program counter
  (void)dladdr(reinterpret_cast<const void*>(counter), &info);
  return info;
}

// Where libraries' code lies: the recorder's own, and the tap's that is preloaded. Found once, by
// the list of libraries, which is locked for a moment alone.
class OwnCode {
 public:
  OwnCode() { (void)dl_iterate_phdr(&add, this); }
  [[nodiscard]] bool has(uintptr_t counter) const {
    return std::ranges::any_of(ranges_, [counter](const Range& range) {
      return counter - range.begin < range.end - range.begin;
    });
  }

 private:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  static int add(dl_phdr_info* library, size_t, void* to) {
    Range range{.begin = UINTPTR_MAX, .end = 0};
    for (const auto& part : std::span(library->dlpi_phdr, library->dlpi_phnum)) {
      if (part.p_type != PT_LOAD) continue;
      const uintptr_t begin = library->dlpi_addr + part.p_vaddr;
      range.begin = std::min(range.begin, begin);
      range.end = std::max(range.end, begin + part.p_memsz);
    }
    const auto here = reinterpret_cast<uintptr_t>(&visit);
    const bool is_own = here >= range.begin && here < range.end;
    auto& self = *static_cast<OwnCode*>(to);
    if (is_own) self.ranges_[0] = range;
    if (std::string_view(library->dlpi_name).ends_with("/libvram_tap.so")) self.ranges_[1] = range;
    return 0;
  }

  std::array<Range, 2> ranges_;
};

bool is_of_vram(uintptr_t counter) {
  static const OwnCode own;
  return own.has(counter);
}

std::string demangled(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = plain != nullptr ? plain : name;
  std::free(plain);
  return text;
}

}  // namespace

void NativeStacks::prepare() {
  (void)counters();
  (void)stores();
  (void)is_of_vram(0);
}

StackId NativeStacks::capture() {
  Walk walk;
  _Unwind_Backtrace(visit, &walk);
  std::array<FrameNumber, kMaxFrames> numbers;
  size_t count = 0;
  bool is_outside = false;
  for (size_t i = 0; i < walk.count; ++i) {
    is_outside = is_outside || !is_of_vram(walk.counters[i]);
    if (is_outside) numbers[count++] = counters().number_of(walk.counters[i]);
  }
  return stores().stacks.intern(std::span(numbers).first(count));
}

FrameText NativeStacks::describe(FrameNumber frame) {
  const std::optional<uintptr_t> counter = counters().counter(frame);
  FrameText text{.function = "?", .file = "?"};
  if (!counter) return text;
  const Dl_info info = library_of(*counter);
  if (info.dli_fname != nullptr) text.file = info.dli_fname;
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  text.function = info.dli_sname != nullptr ? demangled(info.dli_sname)
                                            : fmt::format("+{:#x}", *counter - base);
  return text;
}

namespace {

std::mutex fork_locks_mutex;  // taken before any of them
ForkLock* fork_locks = nullptr;

}  // namespace

ForkLock::ForkLock() {
  const std::lock_guard guard(fork_locks_mutex);
  next_ = fork_locks;
  fork_locks = this;
}

int ForkLock::watch_forks() { return pthread_atfork(&lock_all, &unlock_all, &unlock_all); }

void ForkLock::lock_all() {
  fork_locks_mutex.lock();
  for (ForkLock* each = fork_locks; each != nullptr; each = each->next_) each->lock();
}

void ForkLock::unlock_all() {
  for (ForkLock* each = fork_locks; each != nullptr; each = each->next_) each->unlock();
  fork_locks_mutex.unlock();
}

FrameText describe_frame(FrameNumber frame) {
  const bool is_native = (frame & kNativeFrame) != 0;
  return is_native ? NativeStacks::describe(frame) : PythonStacks::describe(frame);
}

}  // namespace vram::record
