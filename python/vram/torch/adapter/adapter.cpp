// The adapter: vram's pool under PyTorch, compiled on the user's machine against the user's
// PyTorch.
//
// Python (vram.torch) loads it after libvram.so, whose functions it calls, and calls
// vram_torch_install(). The native allocator stays where it is, behind the decorator: blocks that
// it gave out before keep its deleter and go back to it, and blocks of the pool stay valid after
// vram_torch_uninstall().
#include "decorator.hpp"

namespace vram_torch {
namespace {

using c10::cuda::CUDACachingAllocator::vram_adapter::Decorator;

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

void install(uint64_t limit_bytes) {
  static Decorator* decorator = nullptr;
  if (decorator == nullptr) {
    PoolAllocator::get().attach(*torch_cuda::get());
    decorator = new Decorator(PoolAllocator::get());
  }
  PoolAllocator::get().limit(limit_bytes);
  make_current(decorator);
}

thread_local std::string failure;

}  // namespace
}  // namespace vram_torch

extern "C" {

// NULL, or why not; the text lives until the thread's next call. Not to be called beside itself or
// uninstall.
C10_EXPORT const char* vram_torch_install(uint64_t limit_bytes) {
  try {
    vram_torch::install(limit_bytes);
    return nullptr;
  } catch (const std::exception& exception) {
    vram_torch::failure = exception.what();
    return vram_torch::failure.c_str();
  }
}

// PyTorch's own allocator serves what is asked for from now on.
C10_EXPORT void vram_torch_uninstall() {
  vram_torch::make_current(&vram_torch::PoolAllocator::get().native());
}

}  // extern "C"
