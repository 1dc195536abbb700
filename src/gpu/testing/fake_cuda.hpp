// The controls of the fake CUDA driver (tests/fake_cuda): what a test does to the machine that the
// driver pretends to be. The driver itself is opened by dlopen, at fake_cuda_path(), as the real
// one is; a program that has this header links the target fake_cuda beside that.
//
// Devices count from 0; results are CUresult values; a function is named as it is exported
// ("cuMemAlloc_v2"), or null for any. Any thread.
#pragma once

#include "base/testing/paths.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" {

// A new machine, with devices of that much memory each; everything of the old one is gone, with its
// settings. Without this the machine is as the environment says: FAKE_CUDA_DEVICES (2),
// FAKE_CUDA_CAPACITY (bytes, 1 GiB), FAKE_CUDA_VMM (1), FAKE_CUDA_BAD_COPY (0: none).
void fake_cuda_reset(int devices, size_t capacity_bytes);
void fake_cuda_set_capacity(int device, size_t capacity_bytes);
void fake_cuda_set_virtual_memory(int device, bool is_supported);
// Whether device may read and write memory of peer; at first all may.
void fake_cuda_set_peer(int device, int peer, bool can_access);
// Another process holds so many bytes of the device.
void fake_cuda_take(int device, size_t bytes);

// Unfinished work at the end of a stream; and all work in a stream done. What another stream waits
// for through an event is not done by finishing the stream that waits.
void fake_cuda_queue(int device, void* stream);
void fake_cuda_finish(int device, void* stream);
// From here on the stream is captured into a graph, as by cuStreamBeginCapture in global mode.
void fake_cuda_begin_capture(int device, void* stream);
// The same of a stream that the default stream waits for (not made with CU_STREAM_NON_BLOCKING):
// asking about the default stream then says that it can't be used, and using it spoils the capture.
void fake_cuda_begin_blocking_capture(int device, void* stream);
// How many nodes the graph has; -1 if the capture was spoilt.
int fake_cuda_end_capture(int device, void* stream);

// The stream is destroyed: calls that name it fail from now on, where a driver may crash.
void fake_cuda_destroy_stream(int device, void* stream);
// How many such calls there were.
uint64_t fake_cuda_uses_of_destroyed_streams();

// The nth call from now on (1 is the next) fails once.
void fake_cuda_fail_nth(const char* function, uint64_t nth, int result);
// Each call fails with this probability; the same seed fails the same calls.
void fake_cuda_fail_at_random(const char* function, double rate, uint64_t seed, int result);
// Every call fails from now on: the device is lost.
void fake_cuda_break(int result);
// None of these any more.
void fake_cuda_heal();

// How often it was called, failures included.
uint64_t fake_cuda_calls(const char* function);

// What the process has not given back.
struct FakeCudaAlive {
  size_t handles;  // not released
  size_t mappings;
  size_t reservations;
  size_t segments;
  size_t events;
  size_t contexts;    // primary contexts, each as often as it is retained
  size_t used_bytes;  // of all devices
  size_t pinned;
  size_t streams;  // that the driver made
};
FakeCudaAlive fake_cuda_alive();
// In the nth copy to the host from now on a bit of the middle byte comes out wrong; 0: in none.
void fake_cuda_spoil_copy(uint64_t nth);
// Whether a kernel on the device could touch the byte.
bool fake_cuda_can_touch(int device, uint64_t address);
// The properties of the handle last created: whether memory is made so that network cards reach it.
bool fake_cuda_last_was_rdma_capable();

}  // extern "C"

namespace vram {

inline std::string fake_cuda_path() { return build_path("tests/fake_cuda/libcuda.so.1"); }

}  // namespace vram
