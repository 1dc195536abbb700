// dlsym and cuGetProcAddress, answered with stand-ins for what is watched.
#include "tap/found.hpp"

#include "tap/calls.hpp"
#include "tap/cuda.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

namespace vram::tap {
namespace {

using Dlsym = void* (*)(void*, const char*);

constexpr uint64_t kPerThreadStream = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

// By the versions that glibc has given it.
Dlsym find_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version); found != nullptr)
      return reinterpret_cast<Dlsym>(found);
  }
  std::abort();  // not this C library
}

}  // namespace

// RTLD_NEXT is what comes after who calls: this library, so it must not be a jump from here.
void* real_dlsym(void* handle, const char* name) {
  static const Dlsym real = find_dlsym();
  void* const found = real(handle, name);
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

void* watched(const char* base_name, uint64_t flags, void* found) {
  const Call* call = find_call_by_base(base_name, (flags & kPerThreadStream) != 0);
  if (call == nullptr || found == nullptr || found == call->stand_in()) return found;
  *call->own = found;
  return call->stand_in();
}

namespace {

// dlsym of what is watched. Where all libraries are searched, the stand-in is found, or the
// program's own way to it (which it has if it takes the function's address): then the driver's is
// looked for behind it.
void* answer(void* handle, const char* name) {
  const Call* call = find_call(name);
  void* found = real_dlsym(handle, name);
  if (found == nullptr) return nullptr;
  if (found == call->stand_in() || found == real_dlsym(RTLD_DEFAULT, name)) {
    void* const linked = linked_function(name);
    if (linked != nullptr) found = linked;
  }
  if (found == call->stand_in()) return real_dlsym(RTLD_NEXT, name);  // none, as dlerror then says
  *call->own = found;
  return call->stand_in();
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
  static const vram::tap::Dlsym real = vram::tap::find_dlsym();
  return handle != RTLD_NEXT && vram::tap::is_watched(name) ? &vram::tap::answer : real;
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
