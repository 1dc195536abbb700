#include "attach/testing/stand_in.hpp"

#include "attach/attachment.hpp"
#include "attach/testing/probe.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vram::attach {
namespace {

constexpr uint64_t kEarlierBytes = uint64_t{1} << 20;
constexpr uint64_t kEarlierAddress = uint64_t{1} << 50;

__attribute__((noinline)) void probe_malloc(uint64_t address, int8_t device, uint64_t size_bytes,
                                            int64_t stream) {
  if (stand_in_malloc_semaphore == 0) return;
  asm volatile(
      VRAM_TEST_PROBE("pytorch", "malloc", "8@%[address] -1@%[device] 8@%[size] -8@%[stream]")
      :
      : [address] "nor"(address), [device] "nor"(device), [size] "nor"(size_bytes),
        [stream] "nor"(stream));
}

__attribute__((noinline)) void probe_free(uint64_t address) {
  if (stand_in_free_semaphore == 0) return;
  asm volatile(VRAM_TEST_PROBE("pytorch", "free", "8@%[address]") : : [address] "nor"(address));
}

__attribute__((noinline)) void probe_elsewhere(volatile uint64_t* address, uint64_t index,
                                               int8_t device, uint16_t size_bytes) {
  if (stand_in_malloc_semaphore == 0) return;
  asm volatile(
      VRAM_TEST_PROBE("other_places", "malloc",
                      "8@-8(%[base],%[index],8) -1@%[device] 2@%[size] -8@$-2")
      :
      : [base] "r"(address), [index] "r"(index), [device] "r"(device), [size] "r"(size_bytes));
  asm volatile(VRAM_TEST_PROBE("other_places", "free", "8@%[address]") : : [address] "m"(*address));
}

// Where the running program has what is at this place of this one: it is a fork.
template <typename Value>
bool read_memory(uint32_t pid, const volatile void* address, Value& value) {
  const std::string path = "/proc/" + std::to_string(pid) + "/mem";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto at = static_cast<off_t>(reinterpret_cast<uintptr_t>(address));
  const bool is_read = pread(file, &value, sizeof value, at) == sizeof value;
  (void)::close(file);
  return is_read;
}

}  // namespace

std::string why_no_attaching() {
  const StandIn process;
  const auto target = Target::open(process.pid());
  if (!target) return target.error().message;
  const auto attachment = Attachment::attach(*target);
  return attachment ? "" : attachment.error().message;
}

StandIn::StandIn(int threads, uint64_t earlier_blocks)
    : threads_(threads), earlier_blocks_(earlier_blocks) {
  if (threads > kMaxThreads) std::abort();
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  shared_ = new (memory) Shared;
  pid_ = fork();
  if (pid_ == 0) run(earlier_blocks);
  while (shared_->allocations < earlier_blocks) std::this_thread::yield();
}

StandIn::~StandIn() {
  kill();
  (void)munmap(shared_, sizeof(Shared));
}

void StandIn::kill() {
  if (pid_ <= 0) return;
  (void)::kill(pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void StandIn::request(Request request) {
  shared_->request = request;
  ++shared_->turn;
}

void StandIn::request_and_wait(Request request) {
  this->request(request);
  const auto all_ended = [this] {
    return std::all_of(shared_->ended.begin(), shared_->ended.begin() + threads_,
                       [this](uint64_t turn) { return turn == shared_->turn; });
  };
  while (!all_ended() && ::kill(pid_, 0) == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void StandIn::work(uint64_t allocations) {
  shared_->requested_allocations = allocations;
  request_and_wait(Request::kWork);
}

void StandIn::free_earlier_blocks() { request_and_wait(Request::kFreeEarlier); }
void StandIn::work_elsewhere() { request_and_wait(Request::kElsewhere); }
void StandIn::fork_child() { request_and_wait(Request::kFork); }
void StandIn::exec() { request(Request::kExec); }

// In the process from here on.

void StandIn::run(uint64_t earlier_blocks) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (uint64_t i = 0; i < earlier_blocks; ++i) {
    probe_malloc(kEarlierAddress + i * kEarlierBytes, 0, kEarlierBytes, 0);
    ++shared_->allocations;
  }
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads_; ++thread)
    others.emplace_back([=, this] { serve(thread); });
  serve(0);
  std::abort();
}

void StandIn::serve(int thread) {
  for (uint64_t turn = 0;;) {
    if (shared_->turn == turn) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    turn = shared_->turn;
    const Request request = shared_->request;
    if (request == Request::kWork) work_as(thread, shared_->requested_allocations, turn);
    if (request == Request::kEndlessWork) work_as(thread, UINT64_MAX, turn);
    if (thread == 0) do_once(request);
    shared_->ended[static_cast<size_t>(thread)] = turn;
  }
}

void StandIn::do_once(Request request) {
  if (request == Request::kFreeEarlier) {
    for (uint64_t i = 0; i < earlier_blocks_; ++i) probe_free(kEarlierAddress + i * kEarlierBytes);
  } else if (request == Request::kElsewhere) {
    volatile uint64_t places[3] = {0x7f00, 0, 0x7f00};
    probe_elsewhere(places, 3, 3, 768);
  } else if (request == Request::kExec) {
    (void)execlp("sleep", "sleep", "60", nullptr);
  } else if (request == Request::kFork) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 100; ++i) probe_malloc(0x9000'0000, 0, 4096, 0);
      _exit(stand_in_malloc_semaphore == 0 ? 0 : 1);
    }
    (void)waitpid(child, nullptr, 0);
  }
}

void StandIn::allocate(uint64_t address, uint64_t size_bytes) {
  shared_->live_bytes += size_bytes;
  if (shared_->live_bytes > shared_->peak_bytes) shared_->peak_bytes = shared_->live_bytes.load();
  ++shared_->allocations;
  probe_malloc(address, 0, size_bytes, 0);
}

void StandIn::release(uint64_t address, uint64_t size_bytes) {
  probe_free(address);
  shared_->live_bytes -= size_bytes;
}

// Some blocks live at a time, and their addresses are used again: as a training does it.
void StandIn::work_as(int thread, uint64_t allocations, uint64_t turn) {
  constexpr size_t kPlaces = 61;
  std::array<uint64_t, kPlaces> sizes{};
  const uint64_t first = (uint64_t{1} << 40) + (static_cast<uint64_t>(thread) << 36);
  uint64_t state = 1 + static_cast<uint64_t>(thread);
  for (uint64_t i = 0; i < allocations && shared_->turn == turn; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t place = (state >> 33) % kPlaces;
    const uint64_t address = first + place * (uint64_t{1} << 28);
    if (sizes[place] != 0) release(address, sizes[place]);
    sizes[place] = 512 * (1 + (state >> 40) % 2048);
    allocate(address, sizes[place]);
  }
  for (size_t place = 0; place < kPlaces; ++place)
    if (sizes[place] != 0) release(first + place * (uint64_t{1} << 28), sizes[place]);
}

int StandIn::semaphores() const {
  uint16_t malloc = 0;
  uint16_t free = 0;
  if (!read_memory(pid(), &stand_in_malloc_semaphore, malloc) ||
      !read_memory(pid(), &stand_in_free_semaphore, free))
    return -1;
  return malloc + free;
}

int StandIn::changed_instructions() const {
  constexpr size_t kBytes = 96;
  using Code = std::array<uint8_t, kBytes>;
  int changed = 0;
  for (const auto* function :
       {reinterpret_cast<const void*>(&probe_malloc), reinterpret_cast<const void*>(&probe_free)}) {
    Code own{};
    Code its{};
    if (!read_memory(static_cast<uint32_t>(getpid()), function, own) ||
        !read_memory(pid(), function, its))
      return -1;
    for (size_t i = 0; i < kBytes; ++i) changed += own[i] != its[i] ? 1 : 0;
  }
  return changed;
}

}  // namespace vram::attach
