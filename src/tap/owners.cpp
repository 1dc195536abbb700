#include "tap/owners.hpp"

#include "tap/recorder.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>

namespace vram::tap {
namespace {

constexpr int kMaxOwners = 64;
constexpr int kMaxDevices = 16;
constexpr size_t kMaxName = 128;

struct OwnerLibrary {
  std::atomic<const void*> base;  // where it is loaded; nullptr: none
  char figure[kMaxName];
};

pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;  // of the table of libraries
OwnerLibrary libraries[kMaxOwners];
std::array<std::array<std::atomic<uint64_t>, kMaxDevices>, kMaxOwners> sums{};
std::array<std::atomic<bool>, kMaxDevices> is_said{};  // that calls are observed

bool begins(const char* text, const char* with) {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

// Whose calls PyTorch's allocator makes, by itself or by the shared runtime.
bool is_of_allocators(const char* name) {
  return begins(name, "libc10_") || begins(name, "libcudart");
}

void name_figure(const char* path, OwnerLibrary& library) {
  const char* const slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path != nullptr ? path : "";
  // The pool reports each page itself, and moves pages all the time.
  if (begins(name, "libvram.so")) {
    library.figure[0] = '\0';
  } else if (is_of_allocators(name)) {
    (void)std::snprintf(library.figure, sizeof library.figure, "allocator.calls_bytes");
  } else {
    (void)std::snprintf(library.figure, sizeof library.figure, "library.%s",
                        name[0] != '\0' ? name : "program");
  }
}

}  // namespace

Owner owner_of(const void* code) {
  Dl_info found{};
  if (code == nullptr || dladdr(code, &found) == 0) return kNoOwner;
  (void)pthread_mutex_lock(&libraries_lock);
  Owner owner = kNoOwner;
  for (int i = 0; i < kMaxOwners && owner == kNoOwner; ++i) {
    if (libraries[i].base == nullptr) {
      name_figure(found.dli_fname, libraries[i]);
      libraries[i].base = found.dli_fbase;
    }
    if (libraries[i].base == found.dli_fbase) owner = i;
  }
  (void)pthread_mutex_unlock(&libraries_lock);
  return owner;
}

void add_to_owner(Owner owner, Device device, int64_t bytes) {
  if (owner == kNoOwner || device < 0 || device >= kMaxDevices) return;
  const auto place = static_cast<size_t>(device);
  if (!is_said[place].load(std::memory_order_relaxed))
    is_said[place] = write_figure(device, "library.calls_observed", 1);
  // Allocators' libraries share one figure.
  const char* const figure = libraries[owner].figure;
  if (figure[0] == '\0') return;
  std::atomic<uint64_t>& own = sums[static_cast<size_t>(owner)][place];
  (void)own.fetch_add(static_cast<uint64_t>(bytes));
  uint64_t sum = 0;
  for (int i = 0; i < kMaxOwners; ++i) {
    if (libraries[i].base != nullptr && std::strcmp(libraries[i].figure, figure) == 0)
      sum += sums[static_cast<size_t>(i)][place].load();
  }
  (void)write_figure(device, figure, sum);
}

}  // namespace vram::tap
