#include "attach/kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace vram::attach {
namespace {

constexpr const char* kProbeType = "/sys/bus/event_source/devices/uprobe/type";
constexpr const char* kSemaphoreFormat =
    "/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset";
// The kernel's format description: "config:32-63".
constexpr int kSemaphoreShift = 32;
constexpr size_t kRecordHeaderBytes = 8;

template <typename Attributes>
int bpf(bpf_cmd command, Attributes& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

constexpr const char* kHowToGetRights = tr_later(
    "attaching to a process requires root, or the capabilities CAP_BPF and CAP_PERFMON (before "
    "Linux 5.8: CAP_SYS_ADMIN): run it with sudo, or in a container started with --privileged or "
    "--cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE");

tl::unexpected<Error> refused(std::string_view what, int error) {
  if (error == EPERM || error == EACCES) {
    return fail(Code::kIo, "the kernel refuses {}: {}; {}", what, std::strerror(error),
                tr(kHowToGetRights));
  }
  return fail(Code::kIo, "the kernel refuses {}: {}", what, std::strerror(error));
}

Result<Descriptor> create_map(bpf_map_type type, uint32_t key_bytes, uint32_t value_bytes,
                              uint32_t entries, std::string_view what) {
  bpf_attr attributes{};
  attributes.map_type = type;
  attributes.key_size = key_bytes;
  attributes.value_size = value_bytes;
  attributes.max_entries = entries;
  Descriptor map(bpf(BPF_MAP_CREATE, attributes));
  if (!map.is_open() && errno == EINVAL)
    return fail(Code::kUnsupported, "the kernel has no {}: expected Linux 5.8 or newer", what);
  if (!map.is_open()) return refused(what, errno);
  return map;
}

// Before Linux 5.11, maps count as locked memory, of which a shell has 64 KiB.
void allow_locked_memory(uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= 4 * bytes) return;
  limit.rlim_cur = 4 * bytes;
  limit.rlim_max = std::max<rlim_t>(limit.rlim_max, limit.rlim_cur);
  (void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

Result<Descriptor> load_program(std::span<const bpf_insn> program) {
  // The program calls functions that the kernel offers to programs under the GPL only. vram's
  // licence, Apache-2.0, may be combined with it; the kernel asks for this word.
  static constexpr const char* kLicense = "GPL";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_KPROBE;
  attributes.insn_cnt = static_cast<uint32_t>(program.size());
  attributes.insns = reinterpret_cast<uint64_t>(program.data());
  attributes.license = reinterpret_cast<uint64_t>(kLicense);
  Descriptor loaded(bpf(BPF_PROG_LOAD, attributes));
  if (!loaded.is_open()) return refused(tr("the program of a probe"), errno);
  return loaded;
}

Result<uint32_t> probe_type() {
  const auto text = read_whole(kProbeType, 64);
  uint32_t type = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), type).ec != std::errc())
    return fail(Code::kUnsupported,
                "the kernel offers no probes of programs (uprobes): expected {}; a container's "
                "sandbox may hide them, or the kernel is built without CONFIG_UPROBE_EVENTS",
                kProbeType);
  if (::access(kSemaphoreFormat, R_OK) != 0)
    return fail(Code::kUnsupported,
                "the kernel cannot switch on probes that have a counter: expected Linux 4.20 or "
                "newer");
  return type;
}

}  // namespace

Result<EventRing> EventRing::create(uint32_t bytes) {
  allow_locked_memory(bytes);
  VRAM_TRY_ASSIGN(auto ring, create_map(BPF_MAP_TYPE_RINGBUF, 0, 0, bytes, tr("a ring of events")));
  VRAM_TRY_ASSIGN(auto lost, create_map(BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(uint64_t), 1,
                                        tr("a counter of lost events")));
  EventRing made(std::move(ring), std::move(lost), bytes);
  VRAM_TRY(made.map());
  return made;
}

EventRing::EventRing(EventRing&& other) noexcept
    : ring_(std::move(other.ring_)),
      lost_(std::move(other.lost_)),
      bytes_(other.bytes_),
      consumer_(std::exchange(other.consumer_, nullptr)),
      producer_(std::exchange(other.producer_, nullptr)) {}

EventRing::~EventRing() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (consumer_ != nullptr) (void)munmap(consumer_, page);
  if (producer_ != nullptr) (void)munmap(producer_, page + 2 * size_t{bytes_});
}

Result<> EventRing::map() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const own = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring_.number(), 0);
  if (own == MAP_FAILED) return refused(tr("the ring's memory"), errno);
  consumer_ = static_cast<std::byte*>(own);
  void* const all = mmap(nullptr, page + 2 * size_t{bytes_}, PROT_READ, MAP_SHARED, ring_.number(),
                         static_cast<off_t>(page));
  if (all == MAP_FAILED) return refused(tr("the ring's memory"), errno);
  producer_ = static_cast<std::byte*>(all);
  return {};
}

void EventRing::take(const Receive& receive) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::atomic_ref<uint64_t> taken(*reinterpret_cast<uint64_t*>(consumer_));
  const std::atomic_ref<uint64_t> put(*reinterpret_cast<uint64_t*>(producer_));
  uint64_t at = taken.load(std::memory_order_relaxed);
  const uint64_t end = put.load(std::memory_order_acquire);
  while (at < end) {
    std::byte* const record = producer_ + page + (at & (bytes_ - 1));
    const uint32_t header =
        std::atomic_ref(*reinterpret_cast<uint32_t*>(record)).load(std::memory_order_acquire);
    if ((header & BPF_RINGBUF_BUSY_BIT) != 0) break;
    const uint32_t bytes = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
    if ((header & BPF_RINGBUF_DISCARD_BIT) == 0 && bytes >= sizeof(AllocatorEvent)) {
      AllocatorEvent event;
      std::memcpy(&event, record + kRecordHeaderBytes, sizeof event);
      const std::byte* const rest = record + kRecordHeaderBytes + sizeof event;
      uint64_t count = 0;
      if (bytes >= sizeof event + sizeof(CopiedFrames)) std::memcpy(&count, rest, sizeof count);
      const auto* const frames =
          reinterpret_cast<const PythonFrame*>(rest + offsetof(CopiedFrames, frames));
      receive(event, {frames, std::min<size_t>(count, kMaxPythonFrames)});
    }
    at += (bytes + kRecordHeaderBytes + 7) & ~uint64_t{7};
    taken.store(at, std::memory_order_release);
  }
}

uint64_t EventRing::lost() const {
  uint32_t key = 0;
  uint64_t count = 0;
  bpf_attr attributes{};
  attributes.map_fd = static_cast<uint32_t>(lost_.number());
  attributes.key = reinterpret_cast<uint64_t>(&key);
  attributes.value = reinterpret_cast<uint64_t>(&count);
  (void)bpf(BPF_MAP_LOOKUP_ELEM, attributes);
  return count;
}

Result<ThreadMap> ThreadMap::create() {
  constexpr uint32_t kMaxThreads = 16'384;
  VRAM_TRY_ASSIGN(auto map, create_map(BPF_MAP_TYPE_HASH, sizeof(uint32_t), sizeof(uint64_t),
                                       kMaxThreads, "a table of threads"));
  return ThreadMap(std::move(map));
}

// Threads that are not mentioned any more have ended: their state may be freed.
void ThreadMap::update(const PythonThreads& threads) {
  bpf_attr attributes{};
  attributes.map_fd = static_cast<uint32_t>(map_.number());
  for (const auto& [thread, state] : threads_) {
    attributes.key = reinterpret_cast<uint64_t>(&thread);
    if (!threads.contains(thread)) (void)bpf(BPF_MAP_DELETE_ELEM, attributes);
  }
  for (const auto& [thread, state] : threads) {
    attributes.key = reinterpret_cast<uint64_t>(&thread);
    attributes.value = reinterpret_cast<uint64_t>(&state);
    const auto known = threads_.find(thread);
    if (known == threads_.end() || known->second != state)
      (void)bpf(BPF_MAP_UPDATE_ELEM, attributes);
  }
  threads_ = threads;
}

Result<AttachedProbe> AttachedProbe::attach(uint32_t pid, const std::string& path,
                                            const Probe& probe, std::span<const bpf_insn> program) {
  VRAM_TRY_ASSIGN(const uint32_t type, probe_type());
  VRAM_TRY_ASSIGN(auto loaded, load_program(program));
  if (probe.semaphore_offset >> kSemaphoreShift != 0)
    return fail(Code::kUnsupported, "{}: a probe's counter lies beyond 4 GiB", path);
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = type;
  attributes.disabled = 1;  // it need not count: the kernel runs the program all the same
  attributes.config = probe.semaphore_offset << kSemaphoreShift;
  attributes.config1 = reinterpret_cast<uint64_t>(path.c_str());
  attributes.config2 = probe.offset;
  // The event belongs to one thread. The kernel runs its program in all threads of the process.
  Descriptor event(static_cast<int>(syscall(
      SYS_perf_event_open, &attributes, static_cast<pid_t>(pid), -1, -1, PERF_FLAG_FD_CLOEXEC)));
  if (!event.is_open()) return refused(tr("a probe of the process"), errno);
  if (ioctl(event.number(), PERF_EVENT_IOC_SET_BPF, loaded.number()) != 0)
    return refused(tr("a program for a probe"), errno);
  return AttachedProbe(std::move(loaded), std::move(event));
}

}  // namespace vram::attach
