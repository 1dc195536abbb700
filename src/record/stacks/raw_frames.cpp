#include "record/stacks/raw_frames.hpp"

#include "record/stacks/frame_layout.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>

namespace vram::record {
namespace {

constexpr uint64_t kMix = 0x9e3779b97f4a7c15u;
constexpr uint64_t kMixOther = 0xbf58476d1ce4e5b9u;

std::atomic<const FrameLayout*> layout{nullptr};

template <typename Value>
Value read_at(const void* base, int16_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

bool has_gil() {
  const void* const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  return runtime != nullptr && record::has_gil(read_at<RuntimeDescription>(runtime, 0));
}

const void* innermost(const FrameLayout& of, const void* thread) {
  const void* const found = read_at<const void*>(thread, of.current);
  return of.inner_current && found != nullptr ? read_at<const void*>(found, *of.inner_current)
                                              : found;
}

}  // namespace

void RawFrames::prepare() {
  const auto* const version = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  if (version == nullptr) return;
  const FrameLayout* const known = frame_layout_of(*version >> 16);
  if (known != nullptr && (known->version < kFirstDescribed || has_gil())) layout.store(known);
}

uint64_t RawFrames::hash(const CPython::Object* thread) {
  const FrameLayout* const of = layout.load(std::memory_order_relaxed);
  if (of == nullptr) return 0;
  uint64_t hash = kMix;
  const void* frame = innermost(*of, thread);
  for (; frame != nullptr; frame = read_at<const void*>(frame, of->previous)) {
    // A frame's own part does not wait for the frame before: stacks have tens of frames, and a
    // multiplication takes several cycles.
    const uint64_t of_frame = read_at<uint64_t>(frame, of->code) ^
                              std::rotl(read_at<uint64_t>(frame, of->instruction) * kMixOther, 32);
    hash = (std::rotl(hash, 23) ^ of_frame) * kMix;
  }
  return hash ^ hash >> 32;
}

bool RawFrames::has_none(const CPython::Object* thread) {
  const FrameLayout* const of = layout.load(std::memory_order_relaxed);
  return of != nullptr && innermost(*of, thread) == nullptr;
}

bool RawFrames::confirm(const CPython::Object* thread, std::span<CPython::Object* const> codes) {
  const FrameLayout* const of = layout.load(std::memory_order_relaxed);
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
