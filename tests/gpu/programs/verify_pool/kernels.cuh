// The kernels of verify_pool: they write a block's pattern, check it, and delay a stream.
//
// A block is an array of 8-byte words. Word i holds the tag of the last write in its upper half and
// i in its lower half: a wrong word says which write it came from.
#pragma once

#include <cuda_runtime.h>

using Word = unsigned long long;
using Tag = unsigned;

struct WrongWord {
  Word address;
  Word expected;
  Word found;
  Word check;  // the journal's number of it
  Word time_ns;
};

// In pinned memory, so that the host sees it while kernels run. One for each device.
struct Wrong {
  static constexpr int kMaxKept = 16;
  Word words;
  Word flag_timeouts;
  WrongWord first[kMaxKept];
};

// In device memory: what the checking kernels did, to be compared with what was launched.
struct Checked {
  Word kernels;
  Word words;
};

constexpr int kThreadsPerBlock = 256;
constexpr Word kNanosecondsToFlag = 10ull * 1000 * 1000 * 1000;

__host__ __device__ inline Word pattern(Tag tag, Word index) {
  return (static_cast<Word>(tag) << 32) | index;
}

__device__ inline Word nanoseconds() {
  Word now = 0;
#ifdef __CUDA_ARCH__
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
  return now;
}

// Each thread block has one range of the words, so that one thread can count them.
struct Range {
  Word begin;
  Word end;
};
__device__ inline Range range_of_block(Word words) {
  const Word each = (words + gridDim.x - 1) / gridDim.x;
  const Word begin = each * blockIdx.x < words ? each * blockIdx.x : words;
  return {begin, begin + each < words ? begin + each : words};
}

__global__ void write_words(Word* block, Word words, Tag tag) {
  const Range range = range_of_block(words);
  for (Word i = range.begin + threadIdx.x; i < range.end; i += blockDim.x)
    block[i] = pattern(tag, i);
}

__global__ void check_words(const Word* block, Word words, Tag tag, Wrong* wrong, Checked* checked,
                            Word check) {
  const Range range = range_of_block(words);
  const volatile Word* const seen = block;
  for (Word i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
    const Word found = seen[i];
    if (found == pattern(tag, i)) continue;
    const Word before = atomicAdd(&wrong->words, 1ull);
    if (before >= Wrong::kMaxKept) continue;
    wrong->first[before].address = reinterpret_cast<Word>(block + i);
    wrong->first[before].expected = pattern(tag, i);
    wrong->first[before].found = found;
    wrong->first[before].check = check;
    wrong->first[before].time_ns = nanoseconds();
  }
  if (threadIdx.x != 0) return;
  atomicAdd(&checked->words, range.end - range.begin);
  if (blockIdx.x == 0) atomicAdd(&checked->kernels, 1ull);
}

__global__ void spin(Word duration) {
  const Word begin = nanoseconds();
  while (nanoseconds() - begin < duration) {
  }
}

// Until the flag has reached the value. Flags only count up, so one that comes early is not missed.
__global__ void wait_for_flag(const volatile unsigned* flag, unsigned value, Wrong* wrong) {
  const Word begin = nanoseconds();
  while (static_cast<int>(*flag - value) < 0) {
    if (nanoseconds() - begin < kNanosecondsToFlag) continue;
    atomicAdd(&wrong->flag_timeouts, 1ull);
    return;
  }
}

__global__ void set_flag(volatile unsigned* flag, unsigned value) {
  *flag = value;
  __threadfence_system();
}
