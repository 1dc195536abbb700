// The calls to the simulated driver: what each takes (Costs), how many there were (CallStats), and
// which fail on purpose (Faults).
//
// Costs: what each call to the driver takes, as the simulated GPU's clock counts it. A value:
// change a field to simulate another machine. Pure, no allocation; read by sim_gpu and by
// estimates that simulate nothing.
//
// Source, unless a comment names another: medians of many calls on one NVIDIA H200, driver 580.159,
// CUDA 13.0. Between two measured sizes the cost is on the straight line; below the smallest it is
// that of the smallest; above the largest the last line continues.
#pragma once

#include "base/bytes.hpp"
#include "gpu/memory.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace vram::gpu {

struct CostPoint {
  uint64_t bytes = 0;
  int64_t ns = 0;
};

// Nanoseconds by size; points in rising order of bytes, at least two.
struct SizeCost {
  std::array<CostPoint, 3> points;
  uint32_t count = 0;
  [[nodiscard]] int64_t at(uint64_t bytes) const;
};

struct Costs {
  // cudaMalloc: 20 MiB 31 us, 1 GiB 65 us.
  SizeCost alloc_segment{{{{20 * kMiB, 31'000}, {kGiB, 65'000}}}, 2};
  // cudaFree, on an idle device: 20 MiB 31 us, 1 GiB 240 us.
  SizeCost free_segment{{{{20 * kMiB, 31'000}, {kGiB, 240'000}}}, 2};
  // cuMemCreate: 2 MiB 6.7 us, 20 MiB 5.8 us, 1 GiB 13 us.
  SizeCost create{{{{2 * kMiB, 6'700}, {20 * kMiB, 5'800}, {kGiB, 13'000}}}, 3};
  // cuMemRelease: 2 MiB 7 us, 64 MiB 24 us, 1 GiB 240 us.
  SizeCost release{{{{2 * kMiB, 7'000}, {64 * kMiB, 24'000}, {kGiB, 240'000}}}, 3};
  // cuMemSetAccess over one handle: 2 to 64 MiB 18 to 20 us, 1 GiB 45 us.
  SizeCost set_access{{{{2 * kMiB, 18'000}, {64 * kMiB, 20'000}, {kGiB, 45'000}}}, 3};
  // cuMemSetAccess over several handles in one call: each at least this (21 us each).
  int64_t set_access_of_many_ns = 21'000;
  // cuMemUnmap, each mapping: 12 to 15 us (taken as 2 and 64 MiB), 1 GiB 22 us.
  SizeCost unmap{{{{2 * kMiB, 12'000}, {64 * kMiB, 15'000}, {kGiB, 22'000}}}, 3};
  // cuMemMap: 0.4 to 0.8 us whatever the size; the middle.
  int64_t map_ns = 600;

  // cuMemAddressReserve and cuMemAddressFree: not measured there; 2 us and 1 us are vAttention's
  // figures for an A100.
  int64_t reserve_ns = 2'000;
  int64_t unreserve_ns = 1'000;

  // cudaEventRecord: 0.14 us. Create, record, query and destroy together: 0.48 us; what record
  // leaves of it (0.34 us) is taken as equal thirds.
  int64_t record_ns = 140 + 114;  // creates the event, too
  int64_t query_ns = 113;
  int64_t destroy_ns = 113;
  // Not measured: queueing a wait is taken as queueing a record; a wait for what is done already as
  // a query.
  int64_t stream_wait_ns = 140;
  int64_t wait_ns = 113;
  int64_t synchronize_ns = 113;
  int64_t memory_info_ns = 113;

  // cudaMallocAsync + cudaFreeAsync, warm: 0.47 us a pair, taken as equal halves.
  int64_t malloc_async_ns = 235;
  int64_t free_async_ns = 235;

  // One call over so many bytes, without waiting for the device. A call that fails costs what it
  // costs for none (not measured).
  [[nodiscard]] int64_t of(Call call, uint64_t bytes) const;
};

// CallStats: how often each call was made of the simulated driver and what it took. Plain counters,
// no allocation.
struct CallStats {
  struct One {
    uint64_t count = 0;     // with those that failed
    uint64_t failed = 0;    // answered neither kOk nor kNotReady
    int64_t time_ns = 0;    // in the call itself
    int64_t waited_ns = 0;  // for the device's work, inside the call
  };
  std::array<One, kCallCount> calls;

  [[nodiscard]] const One& operator[](Call call) const { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] One& operator[](Call call) { return calls[static_cast<size_t>(call)]; }
  [[nodiscard]] uint64_t count() const;
  [[nodiscard]] int64_t time_ns() const;  // of all calls, without waiting
};

// Faults: makes calls to the simulated driver fail on purpose, to test how its users handle
// failures of the real one. Queried once at the start of each call; a call that is to fail changes
// nothing.
//
// After kFault every call fails with it until clear(): a device that failed stays so. The same seed
// gives the same faults.
class Faults {
 public:
  // The nth call from now on (1 is the next), of any kind or of one, fails once with status.
  void fail_nth(uint64_t nth, Status status);
  void fail_nth(Call call, uint64_t nth, Status status);
  // Each call, of any kind or of one, fails with this probability. Replaces an earlier rate.
  void fail_at_random(double rate, uint64_t seed, Status status, std::optional<Call> only = {});
  void clear();

  // What the call is to fail with, kOk to go on.
  [[nodiscard]] Status next(Call call);

 private:
  struct Planned {
    std::optional<Call> only;
    uint64_t calls_left = 0;
    Status status = Status::kOk;
  };
  [[nodiscard]] Status next_planned(Call call);
  [[nodiscard]] Status next_random(Call call);

  std::vector<Planned> planned_;
  std::mt19937_64 random_;
  double rate_ = 0;
  Status random_status_ = Status::kOk;
  std::optional<Call> random_only_;
  bool broken_ = false;
};

}  // namespace vram::gpu
