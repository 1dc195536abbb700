// Controls of the fake CUDA driver (tests/fake_cuda), with which a test changes the simulated
// machine. The driver itself is loaded with dlopen from fake_cuda_path(), as the real one is; a
// program with this header also links the target fake_cuda.
//
// Devices are numbered from 0; results are CUresult values; a function is given by its exported
// name ("cuMemAlloc_v2"), or null for any. May be called from any thread.
#pragma once

#include "base/testing/paths.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" {

// Replaces the machine and all its settings by a new one whose devices have this much memory.
// Without this call, the environment defines the machine: FAKE_CUDA_DEVICES (2), FAKE_CUDA_CAPACITY
// (bytes, 1 GiB), FAKE_CUDA_VMM (1), FAKE_CUDA_BAD_COPY (0: none).
void fake_cuda_reset(int devices, size_t capacity_bytes);
void fake_cuda_set_capacity(int device, size_t capacity_bytes);
void fake_cuda_set_virtual_memory(int device, bool is_supported);
// Whether device may read and write memory of peer; at first all may.
void fake_cuda_set_peer(int device, int peer, bool can_access);
// Simulates that another process holds this much memory of the device.
void fake_cuda_take(int device, size_t bytes);

// From here on the handle names a stream of this device, whatever context is current; without this
// call, one of the current context's device.
void fake_cuda_place_stream(int device, void* stream);
// Adds unfinished work to the end of a stream; finishes all work of a stream. Work that another
// stream waits for through an event is not finished with the waiting stream.
void fake_cuda_queue(int device, void* stream);
void fake_cuda_finish(int device, void* stream);
// From here on the stream is captured into a graph, as by cuStreamBeginCapture in global mode.
void fake_cuda_begin_capture(int device, void* stream);
// As above, for a stream with which the default stream synchronizes (created without
// CU_STREAM_NON_BLOCKING): queries of the default stream then report an error, and using it
// invalidates the capture.
void fake_cuda_begin_blocking_capture(int device, void* stream);
// How many nodes the graph has; -1 if the capture was spoilt.
int fake_cuda_end_capture(int device, void* stream);

// Destroys the stream: later calls with it fail, where a real driver may crash.
void fake_cuda_destroy_stream(int device, void* stream);
// How many such calls there were.
uint64_t fake_cuda_uses_of_destroyed_streams();

// The nth call from now on (1 is the next) fails once.
void fake_cuda_fail_nth(const char* function, uint64_t nth, int result);
// Each call fails with this probability; the same seed fails the same calls.
void fake_cuda_fail_at_random(const char* function, double rate, uint64_t seed, int result);
// Every call fails from now on: the device is lost.
void fake_cuda_break(int result);
// Ends all of these failures.
void fake_cuda_heal();

// How often it was called, failures included.
uint64_t fake_cuda_calls(const char* function);

// What the process has not released.
struct FakeCudaAlive {
  size_t handles;  // not released
  size_t mappings;
  size_t reservations;
  size_t segments;
  size_t events;
  size_t contexts;    // primary contexts, counted as often as they are retained
  size_t used_bytes;  // of all devices
  size_t pinned;
  size_t streams;  // that the driver made
};
FakeCudaAlive fake_cuda_alive();
// Flips a bit of the middle byte in the nth copy to the host from now on; 0: in none.
void fake_cuda_spoil_copy(uint64_t nth);
// Whether a kernel on the device could touch the byte.
bool fake_cuda_can_touch(int device, uint64_t address);
// The properties of the handle last created: whether memory is made so that network cards reach it.
bool fake_cuda_last_was_rdma_capable();

}  // extern "C"

namespace vram {

inline std::string fake_cuda_path() { return build_path("tests/fake_cuda/libcuda.so.1"); }

}  // namespace vram
