// The functions of record.h: arguments checked, answers turned into a status.
#include "base/environment.hpp"
#include "base/file.hpp"
#include "capi/device_samples.hpp"
#include "capi/flight.hpp"
#include "capi/last_error.hpp"
#include "capi/nvtx.hpp"
#include "capi/registry.hpp"
#include "record/process.hpp"
#include "record/recorder.hpp"
#include "record/threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vram/flight.h>
#include <vram/record.h>

namespace {

using vram::capi::Nvtx;
using vram::capi::refuse;
using vram::record::Op;
using vram::record::Recorder;

constexpr uint64_t kMinLimitBytes = uint64_t{1} << 20;
// Events are operations of the same number.
static_assert(static_cast<int>(Op::kFreeCompleted) == VRAM_EVENT_FREE_COMPLETED &&
              static_cast<int>(Op::kSegmentFound) == VRAM_EVENT_SEGMENT_FOUND &&
              static_cast<int>(Op::kHeldFree) == VRAM_EVENT_HELD_FREE);

// Whether an event that is none of a block is recorded.
[[gnu::cold]] bool admits(const vram_event& event) {
  if (!Recorder::is_on() || static_cast<uint32_t>(event.kind) > VRAM_EVENT_HELD_FREE) return false;
  if (event.kind == VRAM_EVENT_SEGMENT_ALLOC || event.kind == VRAM_EVENT_SEGMENT_MAP)
    vram::capi::DeviceSamples::get().device_is_used(event.device);
  const bool is_of_all_memory = event.kind >= VRAM_EVENT_HELD_SEGMENT;
  return !is_of_all_memory || !vram::capi::Registry::get().has_pool(event.device);
}

uint64_t number_variable(const char* variable) {
  return std::strtoull(vram::trusted_environment(variable).c_str(), nullptr, 10);
}

vram_stacks stacks_variable() {
  const std::string kind = vram::trusted_environment("VRAM_RECORD_STACKS");
  if (kind == "python") return VRAM_STACKS_PYTHON;
  return kind == "native" ? VRAM_STACKS_NATIVE : VRAM_STACKS_NONE;
}

// NULL is no name.
std::string_view or_empty(const char* text) { return text != nullptr ? text : ""; }

// A rank's recording from before this run: no other process uses its name.
void remove_earlier(const std::string& path) {
  if (!vram::record::rank_of_process()) return;
  const auto earlier = vram::find_output_target(path, vram::Replace::kOwn);
  struct stat found{};
  const bool is_earlier =
      earlier && earlier->file.is_open() && fstat(earlier->file.number(), &found) == 0 &&
      static_cast<uint64_t>(found.st_mtime) < number_variable("VRAM_RECORD_SINCE");
  if (is_earlier) (void)unlink(earlier->path.c_str());
}

}  // namespace

extern "C" {

vram_status vram_record_start(const char* path, const vram_record_options* options) {
  const vram_record_options wanted = options != nullptr ? *options : vram_record_options{};
  if (path == nullptr || *path == '\0')
    return refuse(VRAM_INVALID_VALUE, "expected the path of a file to write, found none");
  if (options != nullptr && options->struct_bytes != sizeof *options)
    return refuse(VRAM_INVALID_VALUE, "expected struct_bytes to be sizeof(vram_record_options)");
  if (wanted.stacks > VRAM_STACKS_NATIVE)
    return refuse(VRAM_INVALID_VALUE, "expected stacks to be one of vram_stacks");
  if (wanted.limit_bytes != 0 && wanted.limit_bytes < kMinLimitBytes)
    return refuse(VRAM_INVALID_VALUE, "expected limit_bytes to be 0, or 1 MiB or more");
  const std::string own_path =
      wanted.is_named_by_rank != 0 ? vram::record::path_of_rank(path) : path;
  const auto started = Recorder::start(
      {.path = own_path,
       .stacks = static_cast<vram::record::Stacks>(wanted.stacks),
       .limit_bytes = wanted.limit_bytes,
       .is_lazy = wanted.is_lazy != 0,
       .replace = wanted.replaces_any != 0 ? vram::Replace::kAny : vram::Replace::kOwn,
       .facts = vram::record::facts_of_process()});
  if (!started) {
    return refuse(Recorder::is_started() ? VRAM_INVALID_VALUE : VRAM_FILE_FAILED,
                  started.error().message.c_str());
  }
  vram::capi::Registry::get().report_all();
  vram::capi::DeviceSamples::get().start();
  return VRAM_OK;
}

vram_status vram_record_start_as_told(void) {
  const std::string path = vram::trusted_environment("VRAM_RECORD");
  if (Recorder::is_started()) return VRAM_OK;
  if (path.empty()) return vram::capi::start_flight_as_told(stacks_variable());
  remove_earlier(vram::record::path_of_rank(path));
  vram_record_options options{};
  options.struct_bytes = sizeof options;
  options.stacks = stacks_variable();
  options.is_lazy = 1;
  options.is_named_by_rank = 1;
  options.limit_bytes = number_variable("VRAM_RECORD_LIMIT");
  const vram_status started = vram_record_start(path.c_str(), &options);
  if (started == VRAM_OK) (void)std::atexit([] { (void)vram_record_stop(); });
  return started;
}

vram_status vram_record_stop(void) {
  if (Recorder::is_flight()) return vram_flight_stop();
  vram::capi::DeviceSamples::get().stop();
  const auto stopped = Recorder::stop();
  return stopped ? VRAM_OK : refuse(VRAM_FILE_FAILED, stopped.error().message.c_str());
}

int vram_is_recording(void) { return Recorder::is_on() ? 1 : 0; }

vram_status vram_get_record_counts(vram_record_counts* counts) {
  if (counts == nullptr || counts->struct_bytes != sizeof *counts) return VRAM_INVALID_VALUE;
  const auto found = Recorder::counts();
  *counts = {sizeof *counts, found.events, found.lost_records, found.file_bytes};
  return VRAM_OK;
}

size_t vram_record_path(char* path, size_t capacity) {
  return Recorder::copy_path({path, path == nullptr ? 0 : capacity});
}

void vram_scope_begin(const char* name) {
  if (Nvtx::is_on()) Nvtx::push(name != nullptr ? name : "");
  Recorder::scope_begin(or_empty(name));
}
void vram_scope_end(void) {
  if (Nvtx::is_on()) Nvtx::pop();
  Recorder::scope_end();
}
void vram_step(void) {
  const uint64_t number = Recorder::step();
  if (Nvtx::is_on()) Nvtx::step(number);
}
void vram_record_time(uint64_t unix_ns) { Recorder::state_time(static_cast<int64_t>(unix_ns)); }

void vram_name(int device, const void* address, size_t bytes, const char* name,
               const char* category) {
  Recorder::name(static_cast<uint16_t>(device), reinterpret_cast<uint64_t>(address), bytes,
                 or_empty(name), or_empty(category));
}

void vram_record_figure(int device, const char* name, uint64_t value) {
  Recorder::figure(static_cast<uint16_t>(device), or_empty(name), value);
}

void vram_record_mark(const vram_mark* mark) {
  if (mark == nullptr || mark->struct_bytes != sizeof *mark) return;
  if (mark->kind > VRAM_MARK_COPY_TO_HOST) return;
  Recorder::mark({.kind = static_cast<vram::trace::MarkKind>(mark->kind),
                  .device = static_cast<uint16_t>(mark->device),
                  .name = or_empty(mark->name),
                  .group = or_empty(mark->group),
                  .size_bytes = mark->size_bytes,
                  .duration_ns = static_cast<int64_t>(
                      std::min<uint64_t>(mark->duration_ns, std::numeric_limits<int64_t>::max()))});
}

void vram_record_about(const char* key, const char* value) {
  if (key != nullptr) Recorder::about(key, or_empty(value));
}
void vram_record_setting(const char* key, const char* value) {
  if (key != nullptr) Recorder::setting(key, or_empty(value));
}

[[gnu::hot]] void vram_record_event(const vram_event* event) {
  if (event == nullptr) return;
  if (static_cast<uint32_t>(event->kind) > VRAM_EVENT_FREE_COMPLETED && !admits(*event)) return;
  Recorder::emit({.address = event->address,
                  .size_bytes = event->size_bytes,
                  .stream = reinterpret_cast<uint64_t>(event->stream),
                  .stack = event->stack,
                  .scope = vram::record::ScopeStack::current(),
                  .device = static_cast<uint16_t>(event->device),
                  .op = static_cast<Op>(event->kind)});
}

void vram_record_claim(void) { Recorder::claim(); }
int vram_record_is_claimed(void) { return Recorder::is_claimed() ? 1 : 0; }

uint32_t vram_capture_stack(void) { return Recorder::capture_stack(); }
uint32_t vram_try_capture_stack(void) { return Recorder::try_capture_stack(); }
void vram_python_ends(void) { Recorder::python_ends(); }

}  // extern "C"
