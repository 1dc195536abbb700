// The functions of a library that was opened at run time. Any thread; Symbols one at a time.
#pragma once

#include <dlfcn.h>
#include <string_view>

namespace vram::gpu {

// Null where the library lacks it.
template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = symbol<Function>(library, name);
}

// Of a library that must have them all: the first that is missing is remembered.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}
  template <typename Function>
  void find(const char* name, Function*& function) {
    gpu::find(library_, name, function);
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

}  // namespace vram::gpu
