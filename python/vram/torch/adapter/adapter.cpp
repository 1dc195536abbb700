// The adapter: vram's pool under PyTorch, and a tap on PyTorch's own allocator; compiled on the
// user's machine against the user's PyTorch.
//
// Python (vram.torch) loads it after libvram.so, whose functions it calls, and calls
// vram_torch_install() for the pool, vram_torch_tap() for a recording. The native allocator stays
// where it is: blocks that it allocated before keep its deleter and go back to it, and blocks of
// the pool stay valid after vram_torch_uninstall().
//
//     torch ──▶ [Decorator ──▶] [Tapped ──▶] native
//
// Tapped stands always behind Decorator, and alone while a recording needs it. Decorator stays from
// the first vram_torch_install() on: record_stream() of a block that the pool allocated must reach
// the pool for as long as the block lives.
#include "decorator.hpp"

namespace vram_torch {
namespace {

using c10::cuda::CUDACachingAllocator::vram_adapter::Decorator;
using c10::cuda::CUDACachingAllocator::vram_adapter::Tapped;

c10::Allocator* registered_allocator() {
  try {
    return c10::GetAllocator(c10::DeviceType::CUDA);
  } catch (const c10::Error&) {  // this version of PyTorch does not register it
    return nullptr;
  }
}

// Where PyTorch reads the current allocator: an atomic, and a registry in newer versions.
void make_current(CUDAAllocator* allocator) {
  if (registered_allocator() != nullptr) c10::SetAllocator(c10::DeviceType::CUDA, allocator);
  torch_cuda::allocator.store(allocator);
}

// Before the allocator that was current when vram came.
Tapped& tapped() {
  static auto* const kOnly = new Tapped(*torch_cuda::get());
  return *kOnly;
}

CUDAAllocator* without_pool() {
  return Tap::get().is_started() ? static_cast<CUDAAllocator*>(&tapped()) : &tapped().native();
}

Decorator* decorator = nullptr;

void install(uint64_t limit_bytes) {
  if (decorator == nullptr) {
    PoolAllocator::get().attach(tapped());
    decorator = new Decorator(PoolAllocator::get());
  }
  PoolAllocator::get().limit(limit_bytes);
  PoolAllocator::get().set_serving(true);
  make_current(decorator);
}

void uninstall() { PoolAllocator::get().set_serving(false); }

void tap(bool wants_stacks) {
  Tap::get().start(tapped().native(), wants_stacks);
  if (decorator == nullptr) make_current(without_pool());
}

void untap() {
  Tap::get().stop(tapped().native());
  if (decorator == nullptr) make_current(without_pool());
}

thread_local std::string failure;

// NULL, or why it failed.
template <class Action>
const char* attempt(Action action) {
  try {
    action();
    return nullptr;
  } catch (const c10::Error& error) {
    failure = error.what_without_backtrace();
  } catch (const std::exception& exception) {
    failure = exception.what();
  }
  return failure.c_str();
}

}  // namespace
}  // namespace vram_torch

extern "C" {

// NULL, or why not; the text lives until the thread's next call. None of these is to be called
// beside another.
C10_EXPORT const char* vram_torch_install(uint64_t limit_bytes) {
  return vram_torch::attempt([&] { vram_torch::install(limit_bytes); });
}

// PyTorch's own allocator serves all requests from now on.
C10_EXPORT void vram_torch_uninstall() { vram_torch::uninstall(); }

// What PyTorch's own allocator holds and does goes to the recording that runs, until the next call.
// NULL, or why not.
C10_EXPORT const char* vram_torch_tap(int wants_stacks) {
  return vram_torch::attempt([&] { vram_torch::tap(wants_stacks != 0); });
}

C10_EXPORT void vram_torch_untap() { vram_torch::untap(); }

}  // extern "C"
