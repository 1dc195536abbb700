// Verifies libvram's pool on a GPU: threads run random programs (verify_pool/program.cuh) whose
// kernels write patterns and check them, while memory is short, streams come and go and graphs are
// captured.
//
//     nvcc -O2 -std=c++17 -arch=native -I include -o verify_pool tests/gpu/programs/verify_pool.cu
//     -L DIR -l:libvram.so
//     ./verify_pool --seconds 600
//
// Prints one line of JSON. Exit code 0: all was well; 1: it was not; 2: usage; 3: nothing happened
// for a minute. VERIFY_BREAK=free, record or capture puts a wrong allocator in the pool's place
// (verify_pool/memory.cuh), which the program must find.
#include "verify_pool/program.cuh"

#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

using Clock = std::chrono::steady_clock;

bool parse(int count, char** words, Options* options) {
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const char* const value = words[i + 1];
    const auto mib = [value] {
      return static_cast<size_t>(std::strtoull(value, nullptr, 10)) << 20;
    };
    if (name == "--seconds")
      options->seconds = std::atof(value);
    else if (name == "--threads")
      options->threads = std::atoi(value);
    else if (name == "--streams")
      options->streams = std::atoi(value);
    else if (name == "--devices")
      options->devices = std::atoi(value);
    else if (name == "--limit-mib")
      options->limit_bytes = mib();
    else if (name == "--max-mib")
      options->max_bytes = mib();
    else if (name == "--seed")
      options->seed = std::strtoull(value, nullptr, 10);
    else if (name == "--crossed")
      options->crossed_rounds = std::atoi(value);
    else if (name == "--without")
      options->without = value;
    else
      return false;
  }
  if (const char* const wrong = std::getenv("VERIFY_BREAK")) options->wrong_allocator = wrong;
  const std::string& wrong = options->wrong_allocator;
  // A tag has four bits for its thread; two devices are copied to and fro.
  return count % 2 == 1 && options->threads >= 1 && options->threads <= 14 &&
         options->streams >= 2 && options->devices >= 1 && options->devices <= 2 &&
         options->max_bytes >= size_t{1} << 20 &&
         (wrong.empty() || wrong == "free" || wrong == "record" || wrong == "capture");
}

void open_device(Machine& machine, int number) {
  machine.devices.push_back(std::make_unique<Device>());
  Device& device = *machine.devices.back();
  machine.check(cudaSetDevice(number), "cudaSetDevice");
  void* wrong = nullptr;
  machine.check(cudaHostAlloc(&wrong, sizeof(Wrong), cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(wrong, 0, sizeof(Wrong));
  device.wrong = static_cast<Wrong*>(wrong);
  void* checked = nullptr;
  machine.check(cudaMalloc(&checked, sizeof(Checked)), "cudaMalloc");
  machine.check(cudaMemset(checked, 0, sizeof(Checked)), "cudaMemset");
  device.checked = static_cast<Checked*>(checked);
  if (machine.options.wrong_allocator.empty()) {
    machine.check(vram_pool_open(number, nullptr, &device.memory.pool), "vram_pool_open");
  } else {
    device.memory.wrong =
        new WrongAllocator(machine.options.wrong_allocator, machine.options.limit_bytes);
    machine.check(device.memory.wrong->start(), "cudaMalloc");
  }
  machine.check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (int i = 0; i < machine.options.streams; ++i) {
    device.slots.push_back(std::make_unique<Slot>());
    device.slots.back()->device = number;
    device.slots.back()->life = machine.begin_life(number, i % 4 == 3);
  }
}

void let_in_peers(Machine& machine) {
  for (int number = 0; number < machine.options.devices; ++number) {
    for (int peer = 0; peer < machine.options.devices; ++peer) {
      if (peer == number) continue;
      machine.check(cudaSetDevice(number), "cudaSetDevice");
      machine.check(cudaDeviceEnablePeerAccess(peer, 0), "cudaDeviceEnablePeerAccess");
      const Memory& memory = machine.devices[static_cast<size_t>(number)]->memory;
      if (memory.pool != nullptr)
        machine.check(vram_enable_peer(memory.pool, peer), "vram_enable_peer");
    }
  }
}

// Where there is room, no stream is put behind another: a kernel of A waits for a flag that a
// kernel of B sets, and B writes to a block that A's memory could serve.
class Crossed : private Queue {
 public:
  Crossed(Machine& machine, volatile unsigned* flag)
      : Queue(machine, machine.options.threads), flag_(flag) {}

  void run() {
    const Device& device = *machine_.devices[0];
    const cudaStream_t a = device.slots[0]->life.load()->stream,
                       b = device.slots[1]->life.load()->stream;
    on(0);
    for (int round = 1; round <= machine_.options.crossed_rounds; ++round) {
      const size_t bytes = (size_t{16} + below(16)) << 20;
      Block first = allocate(bytes, a);
      write(first, a);
      check(launch(wait_for_flag, 1, 1, a, flag_, static_cast<unsigned>(round), device.wrong),
            "wait_for_flag");
      verify(first, a);
      check(device.memory.free(first.address), "vram_free");
      Block second = allocate(bytes - below(bytes / 2) / sizeof(Word) * sizeof(Word), b);
      write(second, b);
      check(launch(set_flag, 1, 1, b, flag_, static_cast<unsigned>(round)), "set_flag");
      verify(second, b);
      check(device.memory.free(second.address), "vram_free");
      check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
      check(cudaStreamSynchronize(a), "cudaStreamSynchronize");
      if (static_cast<volatile Wrong*>(device.wrong)->flag_timeouts == 0) continue;
      return machine_.fail("a stream waited for another one although there was room");
    }
  }

 private:
  Block allocate(size_t bytes, cudaStream_t stream) {
    Block block;
    block.bytes = bytes;
    void* address = nullptr;
    check(machine_.devices[0]->memory.alloc(bytes, stream, &address), "vram_alloc");
    block.address = static_cast<Word*>(address);
    return block;
  }
  volatile unsigned* flag_;
};

// What was requested a tick ago is set: no kernel waits for longer than two ticks.
void release_flags(const Machine& machine, const std::atomic<bool>& is_over) {
  std::vector<unsigned> seen(machine.workers.size(), 0);
  std::mt19937_64 random(machine.options.seed);
  while (!is_over) {
    for (size_t i = 0; i < seen.size(); ++i) {
      Flag& flag = machine.workers[i]->flag;
      *flag.value = seen[i];
      seen[i] = flag.asked;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50 + random() % 1000));
  }
}

void watch_progress(Machine& machine, const std::atomic<bool>& is_over) {
  Word last = 0;
  auto moved = Clock::now();
  while (!is_over) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const Word now = machine.sum(&Counters::operations) + machine.sum(&Counters::checks);
    if (now != last) moved = Clock::now();
    last = now;
    if (Clock::now() - moved < std::chrono::seconds(60)) continue;
    for (size_t i = 0; i < machine.workers.size(); ++i) {
      std::fprintf(stderr, "thread %zu: %s\n", i, machine.workers[i]->doing.load());
    }
    machine.fail("nothing happened for 60 s");
    machine.report();
    _exit(3);
  }
}

int reclaim(void* user, int /*device*/, size_t /*bytes*/) {
  Machine& machine = *static_cast<Machine*>(user);
  Block block;
  int count = 0;
  while (count < 8 && machine.take(machine.spare, &block)) {
    (void)machine.journal.note({0, "reclaimed", block.life->stream, nullptr,
                                reinterpret_cast<Word>(block.address), block.bytes, block.tag,
                                machine.options.threads});
    machine.check(machine.devices[static_cast<size_t>(block.device)]->memory.free(block.address),
                  "vram_free");
    machine.workers.back()->counters.reclaimed.fetch_add(1);
    ++count;
  }
  return count > 0 ? 1 : 0;
}

void set_limit(Machine& machine, Word bytes) {
  for (const auto& device : machine.devices) {
    if (device->memory.pool != nullptr)
      machine.check(vram_limit(device->memory.pool, bytes), "vram_limit");
  }
}

void validate(Machine& machine) {
  char text[1000] = "";
  for (const auto& device : machine.devices) {
    if (device->memory.pool == nullptr ||
        vram_validate(device->memory.pool, text, sizeof text) == 1)
      continue;
    machine.fail(std::string("vram_validate: ") + text);
  }
}

// The limit changes twice a second: mostly there is less memory than the threads would have, now
// and then enough.
void let_them_run(Machine& machine) {
  const auto end = Clock::now() + std::chrono::duration<double>(machine.options.seconds);
  const Word limit = machine.options.limit_bytes;
  const Word limits[] = {limit, limit, limit / 4 * 3, limit / 2, limit * 2, 0};
  std::mt19937_64 random(machine.options.seed);
  for (int tick = 0; Clock::now() < end && !machine.should_stop; ++tick) {
    if (tick % 5 == 0) set_limit(machine, limits[random() % std::size(limits)]);
    if (tick % 10 == 9) validate(machine);
    if (machine.wrong_words() > 0) machine.should_stop = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  machine.should_stop = true;
}

// After all was freed: every check that was queued was run, and the pool gives back all that it
// had.
void check_what_is_left(Machine& machine) {
  Word words = 0, kernels = 0;
  for (size_t i = 0; i < machine.devices.size(); ++i) {
    const Device& device = *machine.devices[i];
    machine.check(cudaSetDevice(static_cast<int>(i)), "cudaSetDevice");
    machine.check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    Checked checked{};
    machine.check(cudaMemcpy(&checked, device.checked, sizeof checked, cudaMemcpyDeviceToHost),
                  "cudaMemcpy");
    if (device.wrong->words > 0) machine.journal.explain(device.wrong->first[0].address);
    words += checked.words;
    kernels += checked.kernels;
    vram_pool* const pool = device.memory.pool;
    if (pool == nullptr) continue;
    (void)vram_trim(pool, SIZE_MAX);
    vram_stats stats{};
    stats.struct_bytes = sizeof stats;
    machine.check(vram_get_stats(pool, &stats), "vram_get_stats");
    if (stats.allocation.current != 0 || stats.active_bytes.current != 0 ||
        stats.reserved_bytes.current != 0) {
      machine.fail("after all was freed the pool has " + std::to_string(stats.allocation.current) +
                   " blocks, " + std::to_string(stats.active_bytes.current) + " active and " +
                   std::to_string(stats.reserved_bytes.current) + " reserved bytes");
    }
  }
  if (kernels != machine.sum(&Counters::checks) || words != machine.sum(&Counters::checked_words)) {
    machine.fail(std::to_string(kernels) + " checks of " + std::to_string(words) +
                 " words were run: not as many as were queued");
  }
  validate(machine);
}

void run(Machine& machine) {
  const Options& options = machine.options;
  void* flags = nullptr;
  machine.check(cudaHostAlloc(&flags, 4096, cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(flags, 0, 4096);
  // The last worker is the main thread.
  for (int i = 0; i <= options.threads; ++i) {
    machine.workers.push_back(std::make_unique<Worker>());
    machine.workers.back()->flag.value = static_cast<volatile unsigned*>(flags) + 16 * i;
  }
  for (int number = 0; number < options.devices; ++number) open_device(machine, number);
  let_in_peers(machine);
  std::atomic<bool> is_over{false};
  std::thread watch([&] { watch_progress(machine, is_over); });
  std::thread releaser([&] { release_flags(machine, is_over); });
  std::atomic<const char*>& doing = machine.workers.back()->doing;
  if (options.wrong_allocator.empty()) {
    doing = "crossing streams";
    Crossed(machine, static_cast<volatile unsigned*>(flags) + 16 * (options.threads + 1)).run();
  }
  machine.check(vram_add_reclaim_hook(&reclaim, &machine), "vram_add_reclaim_hook");
  doing = "letting the threads run";
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&machine, i] { Program(machine, i).run(); });
  }
  let_them_run(machine);
  for (std::thread& thread : threads) thread.join();
  machine.check(vram_remove_reclaim_hook(&reclaim, &machine), "vram_remove_reclaim_hook");
  doing = "checking what is left";
  check_what_is_left(machine);
  is_over = true;
  watch.join();
  releaser.join();
}

}  // namespace

int main(int count, char** words) {
  // A kernel that is loaded at its first launch would wait for the kernels that wait for flags; so
  // would a stream that shares a hardware queue with theirs.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  Options options;
  if (!parse(count, words, &options)) {
    std::fprintf(stderr,
                 "usage: verify_pool [--seconds N] [--threads 1..14] [--streams N] [--devices 1|2] "
                 "[--limit-mib N] "
                 "[--max-mib N] [--seed N] [--crossed N] [--without OPERATIONS]; "
                 "VERIFY_BREAK=free|record|capture\n");
    return 2;
  }
  Machine machine(options);
  run(machine);
  return machine.report() ? 0 : 1;
}
