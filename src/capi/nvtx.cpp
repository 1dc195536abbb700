#include "capi/nvtx.hpp"

#include "base/environment.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>

namespace vram::capi {
namespace {

using Function = void (*)();

// The functions that a profiler may replace: a table for each module of NVTX, with a place for each
// function; place 0 is none. Those that vram does not call are there for profilers that fill all.
template <size_t places>
struct Module {
  std::array<Function, places> functions{};
  std::array<Function*, places + 1> table{};  // the last one ends it

  constexpr Module() {
    for (size_t i = 1; i < places; ++i) table[i] = &functions[i];
  }
};

enum ModuleId : int { kCore = 1, kCuda, kOpenCl, kCudaRuntime, kCore2, kSync };
enum CoreFunction : size_t { kRangeStartA = 5, kRangeEnd = 7, kRangePushA = 9, kRangePop = 11 };
constexpr uint32_t kCallbacks = 1;
constexpr uint32_t kVersionInfo = 3;
constexpr uint32_t kNvtxVersion = 3;

Module<16>& core() {
  static Module<16> one;
  return one;
}

template <ModuleId id, size_t places>
Function** other_module(unsigned* count) {
  static Module<places> one;
  *count = places;
  return one.table.data();
}

int get_module(int module, Function*** table, unsigned* count) {
  unsigned places = 0;
  Function** found = nullptr;
  switch (module) {
    case kCore:
      places = static_cast<unsigned>(core().functions.size());
      found = core().table.data();
      break;
    case kCuda:
      found = other_module<kCuda, 9>(&places);
      break;
    case kOpenCl:
      found = other_module<kOpenCl, 15>(&places);
      break;
    case kCudaRuntime:
      found = other_module<kCudaRuntime, 7>(&places);
      break;
    case kCore2:
      found = other_module<kCore2, 16>(&places);
      break;
    case kSync:
      found = other_module<kSync, 7>(&places);
      break;
    default:
      return 0;
  }
  if (table != nullptr) *table = found;
  if (count != nullptr) *count = places;
  return 1;
}

struct Callbacks {
  size_t struct_bytes = sizeof(Callbacks);
  int (*get)(int, Function***, unsigned*) = &get_module;
};

struct VersionInfo {
  size_t struct_bytes = sizeof(VersionInfo);
  uint32_t version = kNvtxVersion;
  uint32_t reserved = 0;
  void (*set_version_of_profiler)(uint32_t) = [](uint32_t) {};
};

const void* get_export_table(uint32_t id) {
  static const Callbacks callbacks;
  static const VersionInfo version;
  if (id == kCallbacks) return &callbacks;
  return id == kVersionInfo ? &version : nullptr;
}

// As NVTX's own code: a library without the function, or whose function returns 0, receives
// nothing.
bool load_profiler() {
  const std::string off = trusted_environment("VRAM_NVTX");
  const std::string path = trusted_environment("NVTX_INJECTION64_PATH");
  if (off == "0" || path.empty()) return false;
  void* const library = dlopen(path.c_str(), RTLD_LAZY);
  if (library == nullptr) return false;
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  return initialize != nullptr && initialize(&get_export_table) != 0;
}

template <typename Type>
Type* core_function(CoreFunction place) {
  return reinterpret_cast<Type*>(core().functions[place]);
}

// Pops without a push would end ranges of the program's own.
constinit thread_local uint64_t open_ranges = 0;

}  // namespace

bool Nvtx::start() {
  static std::once_flag once;
  std::call_once(once, [] {
    state_of_process.store(load_profiler() ? State::kOn : State::kOff, std::memory_order_release);
  });
  return state_of_process.load(std::memory_order_acquire) == State::kOn;
}

void Nvtx::push(const char* name) {
  auto* const function = core_function<int(const char*)>(kRangePushA);
  if (function == nullptr) return;
  (void)function(name);
  ++open_ranges;
}

void Nvtx::pop() {
  auto* const function = core_function<int()>(kRangePop);
  if (function == nullptr || open_ranges == 0) return;
  --open_ranges;
  (void)function();
}

void Nvtx::step(uint64_t number) {
  static std::atomic<uint64_t> range{0};  // 0: none
  auto* const start = core_function<uint64_t(const char*)>(kRangeStartA);
  auto* const end = core_function<void(uint64_t)>(kRangeEnd);
  if (start == nullptr || end == nullptr) return;
  std::array<char, 32> name{};
  (void)std::snprintf(name.data(), name.size(), "step %llu",
                      static_cast<unsigned long long>(number));
  const uint64_t before = range.exchange(start(name.data()));
  if (before != 0) end(before);
}

}  // namespace vram::capi
