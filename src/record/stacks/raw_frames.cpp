#include "record/stacks/raw_frames.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>

namespace vram::record {
namespace {

constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;

// Byte offsets, from CPython's pycore_frame.h and cpython/pystate.h of that version.
struct Layout {
  unsigned long version = 0;  // 0x030b is 3.11
  size_t current = 0;         // in the thread's state: the innermost frame
  bool is_indirect = false;   // or a structure that has it,
  size_t inner_current = 0;   // here
  size_t code = 0;
  size_t previous = 0;
  size_t instruction = 0;
};
constexpr std::array kLayouts = {
    Layout{0x030b, 56, true, 8, 32, 48, 56},
    Layout{0x030c, 56, true, 0, 0, 8, 56},
    Layout{0x030d, 72, false, 0, 0, 8, 56},
};
constexpr unsigned long kFirstWithOffsets = 0x030d;

std::atomic<const Layout*> layout{nullptr};

template <typename Value>
Value read_at(const void* base, size_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

// From 3.13 on the runtime begins with a description of itself: its name, version, and whether it
// has no GIL. Those have other frames.
bool has_gil() {
  const void* const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  return runtime != nullptr && std::memcmp(runtime, "xdebugpy", 8) == 0 &&
         read_at<uint64_t>(runtime, 16) == 0;
}

const void* innermost(const Layout& of, const void* thread) {
  const void* const found = read_at<const void*>(thread, of.current);
  return of.is_indirect && found != nullptr ? read_at<const void*>(found, of.inner_current) : found;
}

}  // namespace

void RawFrames::prepare() {
  const auto* const version = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  if (version == nullptr) return;
  for (const Layout& known : kLayouts) {
    if (known.version == *version >> 16 && (known.version < kFirstWithOffsets || has_gil()))
      layout.store(&known);
  }
}

uint64_t RawFrames::hash(const CPython::Object* thread) {
  const Layout* const of = layout.load(std::memory_order_relaxed);
  if (of == nullptr) return 0;
  uint64_t hash = kMix;
  const void* frame = innermost(*of, thread);
  for (; frame != nullptr; frame = read_at<const void*>(frame, of->previous)) {
    hash = (hash ^ read_at<uint64_t>(frame, of->code)) * kMix;
    hash = ((hash ^ hash >> 32) ^ read_at<uint64_t>(frame, of->instruction)) * kMix;
  }
  return hash ^ hash >> 29;
}

bool RawFrames::confirm(const CPython::Object* thread, std::span<CPython::Object* const> codes) {
  const Layout* const of = layout.load(std::memory_order_relaxed);
  if (of == nullptr) return false;
  const void* frame = innermost(*of, thread);
  for (; frame != nullptr && !codes.empty(); frame = read_at<const void*>(frame, of->previous)) {
    if (read_at<const void*>(frame, of->code) == codes.front()) codes = codes.subspan(1);
  }
  if (codes.empty()) return true;
  layout.store(nullptr);
  return false;
}

}  // namespace vram::record
