#include "record/stacks/raw_frames.hpp"

#include "record/stacks/frame_layout.hpp"

#include <atomic>
#include <dlfcn.h>

namespace vram::record {
namespace {

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
  if (known == nullptr || (known->version >= kFirstDescribed && !has_gil())) return;
  static const bool kIsSet = (for_stacks.layout = *known, true);
  for_stacks.has_layout.store(kIsSet, std::memory_order_release);
}

uint64_t RawFrames::hash(const CPython::Object* thread, FrameChain& chain) {
  if (!for_stacks.has_layout.load(std::memory_order_acquire)) return 0;
  const FrameLayout& of = for_stacks.layout;
  return chain.number(of, innermost(of, thread));
}

bool RawFrames::has_none(const CPython::Object* thread) {
  return for_stacks.has_layout.load(std::memory_order_acquire) &&
         innermost(for_stacks.layout, thread) == nullptr;
}

bool RawFrames::confirm(const CPython::Object* thread, std::span<CPython::Object* const> codes) {
  if (!for_stacks.has_layout.load(std::memory_order_acquire)) return false;
  const FrameLayout& of = for_stacks.layout;
  const void* frame = innermost(of, thread);
  for (; frame != nullptr && !codes.empty(); frame = read_at<const void*>(frame, of.previous)) {
    if (read_at<const void*>(frame, of.code) == codes.front()) codes = codes.subspan(1);
  }
  if (codes.empty()) return true;
  for_stacks.has_layout.store(false);
  return false;
}

}  // namespace vram::record
