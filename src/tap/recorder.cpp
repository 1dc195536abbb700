#include "tap/recorder.hpp"

#include "tap/cuda.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
#include <vram/flight.h>
#include <vram/record.h>
#include <vram/vram.h>

namespace vram::tap {
namespace {

struct Library {
  decltype(&vram_record_start_as_told) start = nullptr;
  decltype(&vram_is_recording) is_recording = nullptr;
  decltype(&vram_record_event) event = nullptr;
  decltype(&vram_flight_settle) settle = nullptr;
  decltype(&vram_record_figure) figure = nullptr;
  decltype(&vram_record_mark) mark = nullptr;
  decltype(&vram_try_capture_stack) stack = nullptr;
  decltype(&vram_record_is_claimed) is_claimed = nullptr;
  decltype(&vram_last_error) last_error = nullptr;
};

Library library;  // NOLINT: set once, below
pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_once_t start_once = PTHREAD_ONCE_INIT;

template <typename Function>
bool look_up(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(real_dlsym(handle, name));
  return *function != nullptr;
}

void write_to_stderr(const char* text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

// Under `vram run --strict` a process that can't be recorded ends.
void end_if_strict(const char* reason) {
  static constexpr int kEnvironment = 3;
  const char* const setting = std::getenv("VRAM_STRICT");
  if (setting == nullptr || std::strcmp(setting, "1") != 0) return;
  write_to_stderr("vram: error: the program can't be recorded: ");
  write_to_stderr(reason != nullptr ? reason : "no reason is known");
  write_to_stderr("; --strict ends it\n");
  _exit(kEnvironment);
}

// libvram.so is in the folder of this library.
void open_library() {
  Dl_info own{};
  char path[4096];
  if (dladdr(reinterpret_cast<const void*>(&open_library), &own) == 0) return;
  const char* const slash = std::strrchr(own.dli_fname, '/');
  const size_t folder = slash == nullptr ? 0 : static_cast<size_t>(slash - own.dli_fname) + 1;
  static constexpr char kName[] = "libvram.so";
  if (folder + sizeof kName > sizeof path) return;
  std::memcpy(path, own.dli_fname, folder);
  std::memcpy(path + folder, kName, sizeof kName);
  void* const handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  Library found;
  if (handle == nullptr || !look_up(handle, "vram_record_start_as_told", &found.start) ||
      !look_up(handle, "vram_is_recording", &found.is_recording) ||
      !look_up(handle, "vram_record_event", &found.event) ||
      !look_up(handle, "vram_flight_settle", &found.settle) ||
      !look_up(handle, "vram_record_figure", &found.figure) ||
      !look_up(handle, "vram_record_mark", &found.mark) ||
      !look_up(handle, "vram_try_capture_stack", &found.stack) ||
      !look_up(handle, "vram_record_is_claimed", &found.is_claimed) ||
      !look_up(handle, "vram_last_error", &found.last_error)) {
    end_if_strict(dlerror());
    return;
  }
  library = found;
}

void start_recording() {
  if (library.start() != VRAM_OK) end_if_strict(library.last_error());
}

}  // namespace

// A process that is claimed may be in the middle of a call of the library: nothing is begun there.
Wanted what_is_wanted() {
  (void)pthread_once(&once, open_library);
  if (library.event == nullptr) return Wanted::kNothing;
  if (library.is_claimed() != 0) return Wanted::kSums;
  (void)pthread_once(&start_once, start_recording);
  return library.is_recording() != 0 ? Wanted::kEvents : Wanted::kNothing;
}

uint32_t stack_of_caller() { return library.stack(); }

void write_event(Kind kind, Device device, DevicePointer address, size_t bytes, Stream stream,
                 uint32_t stack) {
  const vram_event event = {
      static_cast<vram_event_kind>(kind), device, address, bytes, stream, stack};
  library.event(&event);
  if (kind == Kind::kOom) library.settle();
}

bool write_figure(Device device, const char* name, uint64_t value) {
  if (library.is_recording() == 0) return false;
  library.figure(device, name, value);
  return true;
}

void write_copy(bool is_to_device, Device device, size_t bytes, uint64_t duration_ns) {
  const vram_mark mark = {sizeof(vram_mark),
                          is_to_device ? VRAM_MARK_COPY_TO_DEVICE : VRAM_MARK_COPY_TO_HOST,
                          device,
                          bytes,
                          duration_ns,
                          is_to_device ? "host to device" : "device to host",
                          nullptr};
  library.mark(&mark);
}

}  // namespace vram::tap
