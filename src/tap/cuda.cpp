// dlsym, answered with stand-ins for what is watched.
#include "tap/cuda.hpp"

#include "tap/calls.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

namespace vram::tap {
namespace {

using Dlsym = void* (*)(void*, const char*);

// The C library's, by the versions that it has given it: by the name alone it is this library's.
Dlsym c_library_dlsym() {
  static Dlsym found = nullptr;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (found == nullptr) found = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", version));
  }
  if (found == nullptr) std::abort();  // not this C library
  return found;
}

// What the program's calls would reach without this library: another tool that is preloaded may
// answer them, too, and its function has no version.
Dlsym next_dlsym() {
  static Dlsym next = nullptr;
  if (next == nullptr) next = reinterpret_cast<Dlsym>(real_dlsym(RTLD_NEXT, "dlsym"));
  return next != nullptr ? next : c_library_dlsym();
}

}  // namespace

// RTLD_NEXT is what comes after who calls: this library, so it must not be a jump from here.
void* real_dlsym(void* handle, const char* name) {
  void* const found = c_library_dlsym()(handle, name);
  asm volatile("");
  return found;
}

void* driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr ? real_dlsym(driver, name) : nullptr;
}

void* linked_function(const char* name) {
  void* const next = real_dlsym(RTLD_NEXT, name);
  return next != nullptr ? next : driver_function(name);  // of a library that others don't see
}

namespace {

// dlsym of what is watched. Where all libraries are searched, the stand-in may be found itself:
// then there must be something behind it.
void* answer(void* handle, const char* name) {
  const Call* const call = find_call(name);
  void* const found = next_dlsym()(handle, name);
  if (found == nullptr) return nullptr;
  if (found == call->by_name() && linked_function(name) == nullptr)
    return real_dlsym(RTLD_NEXT, name);  // none, as dlerror then says
  return call->in_place_of(found);
}

bool is_watched(const char* name) {
  return name != nullptr && name[0] == 'c' && name[1] == 'u' && find_call(name) != nullptr;
}

}  // namespace
}  // namespace vram::tap

extern "C" {

// Who is to serve a call of dlsym with these arguments.
__attribute__((visibility("hidden"))) vram::tap::Dlsym vram_tap_server(void* handle,
                                                                       const char* name) {
  return handle != RTLD_NEXT && vram::tap::is_watched(name) ? &vram::tap::answer
                                                            : vram::tap::next_dlsym();
}
}

// dlsym(RTLD_NEXT, …) depends on who calls it, so what is not watched must be asked by the caller
// itself: jumped to, with the caller's return address in place.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call vram_tap_server
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size dlsym, .-dlsym
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl dlsym
  .type dlsym, %function
dlsym:
  stp x29, x30, [sp, -32]!
  mov x29, sp
  stp x0, x1, [sp, 16]
  bl vram_tap_server
  mov x16, x0
  ldp x0, x1, [sp, 16]
  ldp x29, x30, [sp], 32
  br x16
  .size dlsym, .-dlsym
)");
#else
#error "dlsym has to be written for this processor"
#endif
