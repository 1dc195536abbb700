#include "machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace vram::gpu::cuda::fake {
namespace {

uint64_t setting(const char* name, uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == 0 ? fallback : std::strtoull(text, nullptr, 10);
}

std::unique_ptr<Machine>& the_machine() {
  static std::unique_ptr<Machine> machine = std::make_unique<Machine>(
      static_cast<int>(setting("FAKE_CUDA_DEVICES", 2)),
      static_cast<size_t>(setting("FAKE_CUDA_CAPACITY", uint64_t{1} << 30)),
      setting("FAKE_CUDA_VMM", 1) != 0);
  return machine;
}

}  // namespace

Machine::Machine(int device_count, size_t capacity_bytes, bool is_virtual_supported)
    : memory(device_count, capacity_bytes) {
  const auto count = static_cast<size_t>(device_count);
  for (int device = 0; device < device_count; ++device) {
    contexts.push_back(std::make_unique<CUctx_st>(CUctx_st{.device = device}));
  }
  is_virtual.assign(count, is_virtual_supported);
  unreachable.assign(count, 0);
  bad_copy = setting("FAKE_CUDA_BAD_COPY", 0);
}

void Machine::spoil(char* bytes, size_t count) {
  if (bad_copy == 0 || count == 0) return;
  // Copies that only measure speed are of zeros, and how many there are depends on the machine.
  if (std::all_of(bytes, bytes + count, [](char byte) { return byte == 0; })) return;
  if (--bad_copy != 0) return;
  bytes[count / 2] = static_cast<char>(bytes[count / 2] ^ 4);
}

bool Machine::can_reach(int device, int memory_of) const {
  return (unreachable[static_cast<size_t>(device)] >> memory_of & 1) == 0;
}

std::mutex& machine_mutex() {
  static std::mutex mutex;
  return mutex;
}

Machine& machine() { return *the_machine(); }

void replace_machine(int devices, size_t capacity_bytes) {
  the_machine() = std::make_unique<Machine>(devices, capacity_bytes, true);
  this_thread() = {};
}

Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

int current_device(const Machine& machine) {
  const Thread& thread = this_thread();
  if (thread.contexts.empty()) return -1;
  const auto found =
      std::find_if(machine.contexts.begin(), machine.contexts.end(),
                   [&](const auto& context) { return context.get() == thread.contexts.back(); });
  return found != machine.contexts.end() && (*found)->retained != 0 ? (*found)->device : -1;
}

CUresult refusal(Machine& machine, const char* function, unsigned needs) {
  const CUresult failure = machine.failures.next(function);
  if (failure != kSuccess) return failure;
  if (needs != kNeedsNothing && !machine.is_initialized) return kErrorNotInitialized;
  if ((needs & kNeedsContext) != 0 && current_device(machine) < 0) return kErrorInvalidContext;
  if ((needs & kUnsafeInCapture) != 0 && this_thread().capture_mode != kCaptureRelaxed &&
      machine.streams.is_any_captured()) {
    machine.streams.spoil_captures();
    return kErrorCaptureUnsupported;
  }
  return kSuccess;
}

namespace {

bool is_selected(const std::string& wanted, const std::string& function) {
  return wanted.empty() || wanted == function;
}

}  // namespace

CUresult Failures::next(const std::string& function) {
  ++calls_[function];
  if (broken_ != kSuccess) return broken_;
  if (const CUresult planned = next_planned(function); planned != kSuccess) return planned;
  if (!at_random_ || !is_selected(at_random_->function, function)) return kSuccess;
  std::bernoulli_distribution fails(at_random_->rate);
  return fails(at_random_->random) ? at_random_->result : kSuccess;
}

CUresult Failures::next_planned(const std::string& function) {
  CUresult result = kSuccess;
  for (Planned& planned : planned_) {
    if (is_selected(planned.function, function) && --planned.calls_left == 0)
      result = planned.result;
  }
  std::erase_if(planned_, [](const Planned& planned) { return planned.calls_left == 0; });
  return result;
}

void Failures::fail_nth(std::string function, uint64_t nth, CUresult result) {
  if (nth != 0) planned_.push_back({std::move(function), nth, result});
}

void Failures::fail_at_random(std::string function, double rate, uint64_t seed, CUresult result) {
  at_random_ = AtRandom{std::move(function), rate, result, std::mt19937_64(seed)};
}

void Failures::heal() {
  planned_.clear();
  at_random_.reset();
  broken_ = kSuccess;
}

uint64_t Failures::calls(const std::string& function) const {
  uint64_t count = 0;
  for (const auto& [name, calls] : calls_) count += is_selected(function, name) ? calls : 0;
  return count;
}

}  // namespace vram::gpu::cuda::fake
