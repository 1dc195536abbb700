// The functions of record.h: arguments checked, answers turned into a status.
#include "capi/last_error.hpp"
#include "capi/registry.hpp"
#include "record/recorder.hpp"
#include "record/threads.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vram/record.h>

namespace {

using vram::capi::refuse;
using vram::record::Op;
using vram::record::Recorder;

constexpr uint64_t kLeastLimitBytes = uint64_t{1} << 20;
constexpr std::array kOps = {Op::kAlloc,         Op::kFound,         Op::kFree,
                             Op::kFreeRequested, Op::kFreeCompleted, Op::kSegmentAlloc,
                             Op::kSegmentFree,   Op::kSegmentMap,    Op::kSegmentUnmap,
                             Op::kSegmentFound,  Op::kOom,           Op::kSnapshot};

std::vector<vram::trace::Setting> facts() {
  return {{"process.pid", std::to_string(getpid())},
          {"process.command", program_invocation_name},
          {"recorder", "vram " VRAM_VERSION}};
}

size_t copy_text(const std::string& text, char* into, size_t capacity) {
  if (capacity > 0) {
    const size_t count = std::min(text.size(), capacity - 1);
    std::memcpy(into, text.data(), count);
    into[count] = '\0';
  }
  return text.size();
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
  if (wanted.limit_bytes != 0 && wanted.limit_bytes < kLeastLimitBytes)
    return refuse(VRAM_INVALID_VALUE, "expected limit_bytes to be 0, or 1 MiB or more");
  const auto started = Recorder::start({.path = path,
                                        .stacks = static_cast<vram::record::Stacks>(wanted.stacks),
                                        .limit_bytes = wanted.limit_bytes,
                                        .is_lazy = wanted.is_lazy != 0,
                                        .about = facts()});
  if (!started) {
    const bool is_running = started.error().code == vram::Code::kBadInput;
    return refuse(is_running ? VRAM_INVALID_VALUE : VRAM_FILE_FAILED,
                  started.error().message.c_str());
  }
  vram::capi::Registry::get().tell_all();
  return VRAM_OK;
}

vram_status vram_record_stop(void) {
  const auto stopped = Recorder::stop();
  return stopped ? VRAM_OK : refuse(VRAM_FILE_FAILED, stopped.error().message.c_str());
}

int vram_is_recording(void) { return Recorder::is_on() ? 1 : 0; }

vram_status vram_get_record_counts(vram_record_counts* counts) {
  if (counts->struct_bytes != sizeof *counts) return VRAM_INVALID_VALUE;
  const auto found = Recorder::counts();
  *counts = {sizeof *counts, found.events, found.lost_records, found.file_bytes};
  return VRAM_OK;
}

size_t vram_record_path(char* path, size_t capacity) {
  return copy_text(Recorder::path(), path, capacity);
}

void vram_scope_begin(const char* name) { Recorder::scope_begin(name); }
void vram_scope_end(void) { Recorder::scope_end(); }
void vram_step(void) { Recorder::step(); }

void vram_name(int device, const void* address, size_t bytes, const char* name,
               const char* category) {
  Recorder::name(static_cast<uint16_t>(device), reinterpret_cast<uint64_t>(address), bytes, name,
                 category);
}

void vram_record_about(const char* key, const char* value) { Recorder::about(key, value); }

void vram_record_event(const vram_event* event) {
  if (!Recorder::is_on() || static_cast<size_t>(event->kind) >= kOps.size()) return;
  Recorder::emit({.address = event->address,
                  .size_bytes = event->size_bytes,
                  .stream = reinterpret_cast<uint64_t>(event->stream),
                  .stack = event->stack,
                  .scope = vram::record::ScopeStack::current(),
                  .device = static_cast<uint16_t>(event->device),
                  .op = kOps[static_cast<size_t>(event->kind)]});
}

uint32_t vram_capture_stack(void) { return Recorder::capture_stack(); }

}  // extern "C"
