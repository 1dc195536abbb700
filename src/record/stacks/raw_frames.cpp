#include "record/stacks/raw_frames.hpp"

#include "record/stacks/frame_layout.hpp"

#include <array>
#include <atomic>
#include <dlfcn.h>
#include <optional>
#include <string_view>

namespace vram::record {
namespace {

// Before 3.11 a frame is an object, and its instruction an index (f_lasti), next to which is the
// line that a debugger has set.
constexpr std::array kLayoutsOfFrameObjects = {FrameLayout{0x0309, 24, std::nullopt, 32, 24, 104},
                                               FrameLayout{0x030a, 24, std::nullopt, 32, 24, 96}};

bool has_gil() {
  const void* const runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
  return runtime != nullptr && record::has_gil(read_at<RuntimeDescription>(runtime, 0));
}

const void* innermost(const FrameLayout& of, const void* thread) {
  const void* const found = read_at<const void*>(thread, of.current);
  return of.inner_current && found != nullptr ? read_at<const void*>(found, *of.inner_current)
                                              : found;
}

// As in Py_Version, which 3.11 has introduced; 0: unknown.
uint64_t version_of_python() {
  const auto* const number = static_cast<const unsigned long*>(dlsym(RTLD_DEFAULT, "Py_Version"));
  if (number != nullptr) return *number >> 16;
  // Objects of a build that traces references begin with two more pointers.
  if (dlsym(RTLD_DEFAULT, "_Py_PrintReferences") != nullptr) return 0;
  const auto text_of = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  const std::string_view text = text_of != nullptr ? text_of() : "";
  if (text.starts_with("3.9.")) return 0x0309;
  return text.starts_with("3.10.") ? 0x030a : 0;
}

const FrameLayout* own_layout_of(uint64_t version) {
  for (const FrameLayout& layout : kLayoutsOfFrameObjects)
    if (layout.version == version) return &layout;
  return frame_layout_of(version);
}

}  // namespace

void RawFrames::prepare() {
  const FrameLayout* const known = own_layout_of(version_of_python());
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
