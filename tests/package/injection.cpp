// A profiler's library as NVTX loads it (NVTX_INJECTION64_PATH): writes what it receives to the
// file that INJECTION_LOG names, a line each. The types are those of nvtxTypes.h of NVTX 3.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unistd.h>

namespace {

using Function = void (*)();

struct Callbacks {
  size_t struct_bytes;
  int (*get_module)(int module, Function*** table, unsigned* count);
};
struct VersionInfo {
  size_t struct_bytes;
  uint32_t version;
  uint32_t reserved;
  void (*set_version)(uint32_t);
};

std::mutex lock;
uint64_t ranges = 0;

void write_line(const char* what, const char* text, uint64_t number) {
  static std::FILE* const file = std::fopen(std::getenv("INJECTION_LOG"), "a");
  std::fprintf(file, "%s %s %d %llu\n", what, text, gettid() == getpid() ? 0 : 1,
               static_cast<unsigned long long>(number));
  std::fflush(file);
}

int push(const char* name) {
  const std::lock_guard guard(lock);
  write_line("push", name, 0);
  return 0;
}
int pop() {
  const std::lock_guard guard(lock);
  write_line("pop", "-", 0);
  return 0;
}
uint64_t start(const char* name) {
  const std::lock_guard guard(lock);
  write_line("start", name, ++ranges);
  return ranges;
}
void end(uint64_t id) {
  const std::lock_guard guard(lock);
  write_line("end", "-", id);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(const void* (*get_table)(uint32_t)) {
  const auto* const version = static_cast<const VersionInfo*>(get_table(3));
  const auto* const callbacks = static_cast<const Callbacks*>(get_table(1));
  if (get_table(2) != nullptr || version == nullptr || callbacks == nullptr) return 0;
  if (version->struct_bytes != sizeof(VersionInfo) || version->version != 3) return 0;
  if (callbacks->struct_bytes != sizeof(Callbacks)) return 0;
  version->set_version(3);
  // A profiler fills what it knows of all modules; the tables end with a null pointer.
  const unsigned expected[] = {0, 16, 9, 15, 7, 16, 7};
  for (int module = 1; module <= 6; ++module) {
    Function** table = nullptr;
    unsigned count = 0;
    if (callbacks->get_module(module, &table, &count) == 0 || count != expected[module]) return 0;
    for (unsigned i = 1; i < count; ++i)
      if (table[i] == nullptr) return 0;
    if (table[count] != nullptr) return 0;
  }
  Function** core = nullptr;
  unsigned count = 0;
  if (callbacks->get_module(7, &core, &count) != 0) return 0;
  (void)callbacks->get_module(1, &core, &count);
  *core[5] = reinterpret_cast<Function>(&start);
  *core[7] = reinterpret_cast<Function>(&end);
  *core[9] = reinterpret_cast<Function>(&push);
  *core[11] = reinterpret_cast<Function>(&pop);
  return std::getenv("INJECTION_REFUSES") == nullptr ? 1 : 0;
}
