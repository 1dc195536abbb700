// What a test does to the machine: gpu/testing/fake_cuda.hpp.
#include "gpu/testing/fake_cuda.hpp"
#include "machine.hpp"

namespace fake = vram::gpu::cuda::fake;
using vram::gpu::cuda::CUresult;
using vram::gpu::cuda::CUstream;

namespace {

// The machine, for one caller at a time.
class Locked {
 public:
  Locked() : lock_(fake::machine_mutex()) {}
  fake::Machine* operator->() { return &fake::machine(); }

 private:
  std::scoped_lock<std::mutex> lock_;
};

std::string text(const char* function) { return function == nullptr ? "" : function; }
CUresult result_of(int value) { return static_cast<CUresult>(value); }
fake::StreamKey key_of(int device, void* stream) { return {device, static_cast<CUstream>(stream)}; }

}  // namespace

extern "C" {

void fake_cuda_reset(int devices, size_t capacity_bytes) {
  const std::scoped_lock lock(fake::machine_mutex());
  fake::replace_machine(devices, capacity_bytes);
}

void fake_cuda_set_capacity(int device, size_t capacity_bytes) {
  Locked()->memory.device(device).set_capacity(capacity_bytes);
}

void fake_cuda_set_virtual_memory(int device, bool is_supported) {
  Locked()->is_virtual[static_cast<size_t>(device)] = is_supported;
}

void fake_cuda_set_peer(int device, int peer, bool can_access) {
  Locked machine;
  uint64_t& unreachable = machine->unreachable[static_cast<size_t>(device)];
  const uint64_t bit = uint64_t{1} << peer;
  unreachable = can_access ? unreachable & ~bit : unreachable | bit;
}

void fake_cuda_take(int device, size_t bytes) { Locked()->memory.device(device).set_taken(bytes); }

void fake_cuda_place_stream(int device, void* stream) {
  Locked()->streams.place(key_of(device, stream));
}

void fake_cuda_queue(int device, void* stream) { Locked()->streams.queue(key_of(device, stream)); }

void fake_cuda_finish(int device, void* stream) {
  Locked()->streams.finish_work(key_of(device, stream));
}

void fake_cuda_begin_capture(int device, void* stream) {
  Locked()->streams.begin_capture(key_of(device, stream));
}

void fake_cuda_begin_blocking_capture(int device, void* stream) {
  Locked()->streams.begin_capture(key_of(device, stream), true);
}

void fake_cuda_destroy_stream(int device, void* stream) {
  Locked()->streams.destroy(key_of(device, stream));
}

uint64_t fake_cuda_uses_of_destroyed_streams() { return Locked()->streams.uses_of_destroyed(); }

int fake_cuda_end_capture(int device, void* stream) {
  return Locked()->streams.end_capture(key_of(device, stream));
}

void fake_cuda_fail_nth(const char* function, uint64_t nth, int result) {
  Locked()->failures.fail_nth(text(function), nth, result_of(result));
}

void fake_cuda_fail_at_random(const char* function, double rate, uint64_t seed, int result) {
  Locked()->failures.fail_at_random(text(function), rate, seed, result_of(result));
}

void fake_cuda_break(int result) { Locked()->failures.break_device(result_of(result)); }

void fake_cuda_heal() { Locked()->failures.heal(); }

uint64_t fake_cuda_calls(const char* function) { return Locked()->failures.calls(text(function)); }

FakeCudaAlive fake_cuda_alive() {
  Locked machine;
  FakeCudaAlive alive{};
  alive.handles = machine->memory.live_handles();
  alive.mappings = machine->memory.mappings();
  alive.reservations = machine->memory.reservations();
  alive.segments = machine->memory.segments();
  alive.events = machine->streams.events();
  for (const auto& context : machine->contexts) alive.contexts += context->retained;
  alive.used_bytes = machine->memory.used_bytes();
  alive.pinned = machine->pinned.size();
  alive.streams = machine->made_streams.size();
  return alive;
}

bool fake_cuda_can_touch(int device, uint64_t address) {
  return Locked()->memory.can_touch(device, address);
}

void fake_cuda_spoil_copy(uint64_t nth) { Locked()->bad_copy = nth; }

bool fake_cuda_last_was_rdma_capable() { return Locked()->is_last_rdma_capable; }

}  // extern "C"
