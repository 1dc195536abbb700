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
pthread_once_t watches_forks = PTHREAD_ONCE_INIT;
OwnerLibrary libraries[kMaxOwners];
std::array<std::array<std::atomic<uint64_t>, kMaxDevices>, kMaxOwners> sums{};
std::array<std::atomic<bool>, kMaxDevices> is_said{};  // that calls are observed

void take_lock() { (void)pthread_mutex_lock(&libraries_lock); }
void give_lock() { (void)pthread_mutex_unlock(&libraries_lock); }
// A child finds the table whole.
void watch_forks() { (void)pthread_atfork(take_lock, give_lock, give_lock); }

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
  (void)pthread_once(&watches_forks, watch_forks);
  take_lock();
  Owner owner = kNoOwner;
  for (int i = 0; i < kMaxOwners && owner == kNoOwner; ++i) {
    if (libraries[i].base == nullptr) {
      name_figure(found.dli_fname, libraries[i]);
      libraries[i].base = found.dli_fbase;
    }
    if (libraries[i].base == found.dli_fbase) owner = i;
  }
  give_lock();
  return owner;
}

namespace {

// Allocators' libraries share one figure.
uint64_t sum_of(const char* figure, size_t device) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kMaxOwners; ++i) {
    if (libraries[i].base != nullptr && std::strcmp(libraries[i].figure, figure) == 0)
      sum += sums[i][device].load();
  }
  return sum;
}

}  // namespace

void add_to_owner(Owner owner, Device device, int64_t bytes) {
  if (owner == kNoOwner || device < 0 || device >= kMaxDevices) return;
  const auto place = static_cast<size_t>(device);
  if (!is_said[place].load(std::memory_order_relaxed))
    is_said[place] = write_figure(device, "library.calls_observed", 1);
  const char* const figure = libraries[owner].figure;
  if (figure[0] == '\0') return;
  (void)sums[static_cast<size_t>(owner)][place].fetch_add(static_cast<uint64_t>(bytes));
  // Without a lock, since the recorder may wait: a thread that wrote while another one added writes
  // again, so that the last figure is the sum.
  uint64_t written = 0;
  do {
    written = sum_of(figure, place);
    (void)write_figure(device, figure, written);
  } while (sum_of(figure, place) != written);
}

}  // namespace vram::tap
