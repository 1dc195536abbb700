// The machines on which the rules of memory.hpp are tested, all alike to the tests: two devices of
// 64 MiB, of which device 0 is used; bytes that can be written and read; work in streams.
#pragma once

#include "base/bytes.hpp"
#include "gpu/cuda/cuda_copies.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/memory.hpp"
#include "gpu/sim/sim_gpu.hpp"
#include "gpu/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace vram::gpu {

inline constexpr uint64_t kWorldBytes = 64 * kMiB;

class SimWorld {
 public:
  ~SimWorld() {
    std::string why;
    EXPECT_TRUE(gpu_.validate(&why)) << why;
  }
  SimGpu& memory() { return gpu_; }
  SimGpu& copies() { return gpu_; }
  bool can_touch(Address address) {
    std::byte byte{};
    return gpu_.read(0, address, std::span(&byte, 1)) == Status::kOk;
  }
  void write(Address address, uint64_t value) {
    EXPECT_EQ(gpu_.write(0, address, std::as_bytes(std::span(&value, 1))), Status::kOk);
  }
  uint64_t read(Address address) {
    uint64_t value = 0;
    EXPECT_EQ(gpu_.read(0, address, std::as_writable_bytes(std::span(&value, 1))), Status::kOk);
    return value;
  }
  void queue(StreamHandle stream) {
    EXPECT_EQ(gpu_.enqueue(0, stream, 1'000'000'000), Status::kOk);
  }

 private:
  SimGpu gpu_{{.devices = {{kWorldBytes, kUnlimited}, {kWorldBytes, kUnlimited}}, .backing = true}};
};

// The fake driver, whose device memory is memory of this process.
class FakeCudaWorld {
 public:
  FakeCudaWorld() {
    fake_cuda_reset(2, kWorldBytes);
    driver_ = cuda::DriverApi::load(fake_cuda_path()).value();
    memory_ = cuda::CudaMemory::open(driver_, 0).value();
    copies_ =
        cuda::CudaCopies::open(driver_, cuda::CopyApi::load(fake_cuda_path()).value(), 0).value();
  }
  ~FakeCudaWorld() {
    memory_.reset();
    copies_.reset();
    EXPECT_EQ(fake_cuda_alive().events, 0u);
    EXPECT_EQ(fake_cuda_alive().contexts, 0u);
  }
  const cuda::DriverApi& driver() const { return driver_; }
  cuda::CudaMemory& memory() { return *memory_; }
  cuda::CudaCopies& copies() { return *copies_; }
  bool can_touch(Address address) { return fake_cuda_can_touch(0, address); }
  void write(Address address, uint64_t value) { std::memcpy(pointer(address), &value, 8); }
  uint64_t read(Address address) {
    uint64_t value = 0;
    std::memcpy(&value, pointer(address), 8);
    return value;
  }
  void queue(StreamHandle stream) { fake_cuda_queue(0, pointer(stream)); }
  void finish(StreamHandle stream) { fake_cuda_finish(0, pointer(stream)); }

 private:
  // NOLINTNEXTLINE(performance-no-int-to-ptr): device addresses and streams are numbers to us
  static void* pointer(uint64_t value) { return reinterpret_cast<void*>(value); }
  cuda::DriverApi driver_;
  std::unique_ptr<cuda::CudaMemory> memory_;
  std::unique_ptr<cuda::CudaCopies> copies_;
};

}  // namespace vram::gpu
