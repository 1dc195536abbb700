// The functions of flight.h, and the requests of `vram record` that a flight recorder answers.
#include "capi/flight.hpp"

#include "base/environment.hpp"
#include "capi/last_error.hpp"
#include "capi/open_board.hpp"
#include "capi/registry.hpp"
#include "record/board.hpp"
#include "record/process.hpp"
#include "record/recorder.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vram/flight.h>

namespace {

using vram::capi::OpenBoard;
using vram::capi::refuse;
using vram::record::BoardSlot;
using vram::record::FlightOptions;
using vram::record::kBoardUnknown;
using vram::record::PageRequest;
using vram::record::Recorder;

// A request of `vram record` that is being answered. Used by the flusher only.
struct Answering {
  PageRequest request;
  uint64_t first_step = 0;
  std::chrono::steady_clock::time_point began;
};

Answering& answering() {
  static Answering one;
  return one;
}

// The last answer's file, which its requester removes, unless it was killed. Only while the
// flusher runs, or after it has ended.
std::string& answered_file() {
  static std::string& path = *new std::string;  // the flusher may run while the process ends
  return path;
}

void remove_answer() {
  const std::string path = std::exchange(answered_file(), "");
  if (!path.empty()) (void)unlink(path.c_str());
}

// The step that is under way when the request comes is not one of those requested.
bool is_due(const Answering& now) {
  const auto& [steps, duration_ns] = now.request.order;
  const auto elapsed = std::chrono::steady_clock::now() - now.began;
  const auto elapsed_ns = static_cast<uint64_t>(std::chrono::nanoseconds(elapsed).count());
  return (steps == kBoardUnknown || Recorder::steps() - now.first_step > steps) &&
         (duration_ns == kBoardUnknown || elapsed_ns >= duration_ns);
}

std::string wanted_by_page() {
  auto* const board = OpenBoard::get().current();
  if (board != nullptr) board->set_records(true);  // also on a page that was opened meanwhile
  const auto request = board == nullptr ? std::nullopt : board->request(BoardSlot::kRecord);
  if (!request) return "";
  Answering& now = answering();
  if (now.request.number != request->number)
    now = {*request, Recorder::steps(), std::chrono::steady_clock::now()};
  if (!is_due(now)) return "";
  remove_answer();
  answered_file() = vram::record::answered_recording(
      board->folder(), static_cast<uint32_t>(getpid()), request->number);
  return answered_file();
}

// A requester whose time is up takes its request back, and may do so during the answer.
void answer_page(std::optional<uint64_t> bytes) {
  auto* const board = OpenBoard::get().current();
  if (board == nullptr) return remove_answer();
  const PageRequest request = std::exchange(answering(), {}).request;
  if (!board->answer(request, bytes.value_or(kBoardUnknown), BoardSlot::kRecord)) remove_answer();
}

FlightOptions as_flight(const vram_flight_options& wanted) {
  FlightOptions flight;
  if (wanted.max_bytes != 0) flight.max_bytes = wanted.max_bytes;
  if (wanted.steps != 0) flight.steps = wanted.steps;
  if (wanted.duration_ns != 0) flight.duration = std::chrono::nanoseconds(wanted.duration_ns);
  if (wanted.max_files != 0) flight.max_files = wanted.max_files;
  if (wanted.growth_bytes != 0) flight.rules.growth_bytes = wanted.growth_bytes;
  if (wanted.unused_bytes != 0) flight.rules.unused_bytes = wanted.unused_bytes;
  return flight;
}

// flight.4711.vtrace, or flight.rank0.4711.vtrace.
// The program may change its directory later.
std::string window_path(const std::filesystem::path& folder) {
  const std::string name = (std::filesystem::absolute(folder) / "flight.vtrace").string();
  return vram::record::path_with(vram::record::path_of_rank(name), std::to_string(getpid()));
}

vram_status check(const char* folder, const vram_flight_options* options) {
  if (folder == nullptr || *folder == '\0')
    return refuse(VRAM_INVALID_VALUE, "expected the path of a folder, found none");
  if (options == nullptr) return VRAM_OK;
  if (options->struct_bytes != sizeof *options)
    return refuse(VRAM_INVALID_VALUE, "expected struct_bytes to be sizeof(vram_flight_options)");
  if (options->stacks > VRAM_STACKS_NATIVE)
    return refuse(VRAM_INVALID_VALUE, "expected stacks to be one of vram_stacks");
  if (options->max_bytes != 0 && options->max_bytes < FlightOptions::kMinBytes)
    return refuse(VRAM_INVALID_VALUE, "expected max_bytes to be 0, or 3 MiB or more");
  if (options->on_signal != 0 && !vram::record::DumpSignals::can_handle(options->on_signal))
    return refuse(VRAM_INVALID_VALUE,
                  "expected on_signal to be 0 or a signal that a program can handle");
  if (options->duration_ns > INT64_MAX)
    return refuse(VRAM_INVALID_VALUE, "expected duration_ns to be at most 2^63 - 1 (292 years)");
  return VRAM_OK;
}

vram_status end_flight() {
  if (!Recorder::is_flight()) return VRAM_OK;
  const auto stopped = Recorder::stop();
  if (auto* const board = OpenBoard::get().current()) board->set_records(false);
  return stopped ? VRAM_OK : refuse(VRAM_FILE_FAILED, stopped.error().message.c_str());
}

}  // namespace

namespace vram::capi {

vram_status start_flight_as_told(vram_stacks stacks) {
  const std::string folder = vram::trusted_environment("VRAM_FLIGHT");
  if (folder.empty()) return VRAM_OK;
  vram_flight_options options{};
  options.struct_bytes = sizeof options;
  options.stacks = stacks;
  const vram_status started = vram_flight_start(folder.c_str(), &options);
  if (started == VRAM_OK) (void)std::atexit([] { (void)vram_flight_stop(); });
  return started;
}

}  // namespace vram::capi

extern "C" {

vram_status vram_flight_start(const char* folder, const vram_flight_options* options) {
  if (const vram_status checked = check(folder, options); checked != VRAM_OK) return checked;
  const vram_flight_options wanted = options != nullptr ? *options : vram_flight_options{};
  std::error_code error;
  (void)std::filesystem::create_directories(folder, error);
  const auto started = Recorder::start({.path = window_path(folder),
                                        .stacks = static_cast<vram::record::Stacks>(wanted.stacks),
                                        .facts = vram::record::facts_of_process(),
                                        .flight = as_flight(wanted),
                                        .page = {&wanted_by_page, &answer_page}});
  if (!started) {
    return refuse(Recorder::is_started() ? VRAM_INVALID_VALUE : VRAM_FILE_FAILED,
                  started.error().message.c_str());
  }
  (void)OpenBoard::get().open();  // without a page there are no requests, and nothing else is lost
  if (auto* const board = OpenBoard::get().current()) board->set_records(true);
  if (wanted.ignores_signals == 0) vram::record::DumpSignals::install(wanted.on_signal);
  vram::record::DumpSignals::set_enabled(wanted.ignores_signals == 0);
  vram::capi::Registry::get().report_all();
  return VRAM_OK;
}

vram_status vram_flight_stop(void) {
  vram::record::DumpSignals::set_enabled(false);
  return end_flight();
}

vram_status vram_flight_rest(void) {
  if (Recorder::is_flight()) vram::record::DumpSignals::rest();
  return end_flight();
}

int vram_flight_is_on(void) { return Recorder::is_flight() && Recorder::is_on() ? 1 : 0; }

vram_status vram_flight_dump(char* path, size_t capacity) {
  const auto dumped = Recorder::dump(Recorder::kMaxDumpTime);
  if (!dumped) {
    return refuse(Recorder::is_flight() ? VRAM_FILE_FAILED : VRAM_INVALID_VALUE,
                  dumped.error().message.c_str());
  }
  if (path != nullptr) (void)std::snprintf(path, capacity, "%s", dumped->c_str());
  return VRAM_OK;
}

void vram_flight_settle(void) { Recorder::settle(); }

}  // extern "C"
