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

const Call* call_of(const char* name) {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return nullptr;
  return find_call(name);
}

}  // namespace

void* real_dlsym(void* handle, const char* name) {
  static const Dlsym real = find_dlsym();
  return real(handle, name);
}

void* driver_function(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr ? real_dlsym(driver, name) : nullptr;
}

// The driver's own cuGetProcAddress, old and new: they differ in the last argument.
void* own_get_proc_address = nullptr;
void* own_get_proc_address_v2 = nullptr;

void* watched(const char* base_name, uint64_t flags, void* found) {
  const Call* call = find_call_by_base(base_name, (flags & kPerThreadStream) != 0);
  if (call == nullptr || found == nullptr || found == call->stand_in) return found;
  *call->own = found;
  return call->stand_in;
}

Result get_proc_address(const char* name, void** function, int version, uint64_t flags) {
  using Own = Result (*)(const char*, void**, int, uint64_t);
  const Result result = reinterpret_cast<Own>(own_get_proc_address)(name, function, version, flags);
  if (result == kSuccess) *function = watched(name, flags, *function);
  return result;
}

Result get_proc_address_v2(const char* name, void** function, int version, uint64_t flags,
                           void* status) {
  using Own = Result (*)(const char*, void**, int, uint64_t, void*);
  const Result result =
      reinterpret_cast<Own>(own_get_proc_address_v2)(name, function, version, flags, status);
  if (result == kSuccess) *function = watched(name, flags, *function);
  return result;
}

}  // namespace vram::tap

extern "C" {

// What dlsym answers in the place of what the driver exports; nullptr: whatever it would. Called
// with dlsym's own arguments.
__attribute__((visibility("hidden"))) void* vram_tap_answer(void* handle, const char* name) {
  const vram::tap::Call* call = vram::tap::call_of(name);
  if (call == nullptr || handle == RTLD_NEXT) return nullptr;
  void* const own = vram::tap::real_dlsym(handle, name);
  if (own == nullptr || own == call->stand_in) return own;
  *call->own = own;
  return call->stand_in;
}

__attribute__((visibility("hidden"))) void* vram_tap_real_dlsym() {
  static void* const real = reinterpret_cast<void*>(vram::tap::find_dlsym());
  return real;
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
  call vram_tap_answer
  testq %rax, %rax
  jne 1f
  call vram_tap_real_dlsym
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
1:
  .cfi_adjust_cfa_offset 24
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  ret
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
  bl vram_tap_answer
  cbnz x0, 1f
  bl vram_tap_real_dlsym
  mov x16, x0
  ldp x0, x1, [sp, 16]
  ldp x29, x30, [sp], 32
  br x16
1:
  ldp x29, x30, [sp], 32
  ret
  .size dlsym, .-dlsym
)");
#else
#error "dlsym has to be written for this processor"
#endif
