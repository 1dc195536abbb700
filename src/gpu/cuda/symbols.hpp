// Symbols: the functions of an opened library, looked up until one is missing, which it remembers.
// One thread at a time.
#pragma once

#include <dlfcn.h>
#include <string_view>

namespace vram::gpu::cuda {

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <typename Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  // The newer of two that take the same.
  template <typename Function>
  void find_newest(const char* newer, const char* older, Function*& function) {
    const bool has_newer = dlsym(library_, newer) != nullptr;
    find(has_newer ? newer : older, function);
  }
  [[nodiscard]] std::string_view missing() const { return missing_; }

 private:
  void* library_;
  std::string_view missing_;
};

}  // namespace vram::gpu::cuda
