#include "record/stacks/native_stack.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <mutex>
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
      found->second = static_cast<FrameNumber>(counters_.size()) | NativeStacks::kMark;
      counters_.push_back(counter);
    }
    return found->second;
  }
  uintptr_t counter(FrameNumber number) {
    const std::lock_guard guard(lock_);
    return counters_[number & ~NativeStacks::kMark];
  }
  std::mutex& lock() { return lock_; }

 private:
  std::mutex lock_;
  std::unordered_map<uintptr_t, FrameNumber> numbers_;
  std::vector<uintptr_t> counters_;
};

Counters& counters() {
  static Counters& all = *new Counters;
  return all;
}

struct Walk {
  std::array<uintptr_t, NativeStacks::kMostFrames> counters;
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

// The recorder's own frames, and those of the tap that is preloaded.
bool is_vrams(uintptr_t counter) {
  static const void* const own = library_of(reinterpret_cast<uintptr_t>(&visit)).dli_fbase;
  const Dl_info info = library_of(counter);
  return info.dli_fbase == own || (info.dli_fname != nullptr &&
                                   std::string_view(info.dli_fname).ends_with("/libvram_tap.so"));
}

std::string demangled(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = plain != nullptr ? plain : name;
  std::free(plain);
  return text;
}

}  // namespace

StackId NativeStacks::capture() {
  Walk walk;
  _Unwind_Backtrace(visit, &walk);
  std::array<FrameNumber, kMostFrames> numbers;
  size_t count = 0;
  bool is_outside = false;
  for (size_t i = 0; i < walk.count; ++i) {
    is_outside = is_outside || !is_vrams(walk.counters[i]);
    if (is_outside) numbers[count++] = counters().number_of(walk.counters[i]);
  }
  return stores().stacks.intern(std::span(numbers).first(count));
}

void NativeStacks::before_fork() { counters().lock().lock(); }
void NativeStacks::after_fork() { counters().lock().unlock(); }

FrameText NativeStacks::describe(FrameNumber frame) {
  const uintptr_t counter = counters().counter(frame);
  const Dl_info info = library_of(counter);
  FrameText text;
  text.file = info.dli_fname != nullptr ? info.dli_fname : "?";
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  text.function =
      info.dli_sname != nullptr ? demangled(info.dli_sname) : fmt::format("+{:#x}", counter - base);
  return text;
}

}  // namespace vram::record
