// The kernel's side of an attachment: a ring of events, programs, and the probes that run them.
// Everything here is a descriptor: the kernel removes it when this process ends, however it ends.
// Errors name the missing right and how to get it.
#pragma once

#include "attach/probes.hpp"
#include "attach/program.hpp"
#include "base/file.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <linux/bpf.h>
#include <span>
#include <string>
#include <utility>

namespace vram::attach {

// A ring that programs of the kernel fill in the order of their calls. Use it from one thread at a
// time.
class EventRing {
 public:
  static constexpr uint32_t kDefaultBytes = uint32_t{16} << 20;

  // `bytes`: a power of two, at least a page.
  [[nodiscard]] static Result<EventRing> create(uint32_t bytes = kDefaultBytes);
  EventRing(EventRing&& other) noexcept;
  EventRing& operator=(EventRing&&) = delete;
  ~EventRing();

  [[nodiscard]] ProgramMaps maps() const { return {ring_.number(), lost_.number()}; }
  // `frames` has those that the event came with.
  using Receive = std::function<void(const AllocatorEvent&, std::span<const PythonFrame> frames)>;
  // Passes on what the ring holds, oldest first, and makes room. Stops at an event that is still
  // being written.
  void take(const Receive& receive);
  // Events that found no room, since the beginning.
  [[nodiscard]] uint64_t lost() const;

 private:
  EventRing(Descriptor ring, Descriptor lost, uint32_t bytes)
      : ring_(std::move(ring)), lost_(std::move(lost)), bytes_(bytes) {}
  [[nodiscard]] Result<> map();

  Descriptor ring_;
  Descriptor lost_;
  uint32_t bytes_;
  std::byte* consumer_ = nullptr;  // a page: how far take() has come
  std::byte* producer_ = nullptr;  // a page: how far programs have come; then the data, twice
};

// The threads of a process that run Python, for the programs of its probes. Use it from one thread
// at a time.
class ThreadMap {
 public:
  [[nodiscard]] static Result<ThreadMap> create();
  void update(const PythonThreads& threads);
  [[nodiscard]] int number() const { return map_.number(); }

 private:
  explicit ThreadMap(Descriptor map) : map_(std::move(map)) {}
  Descriptor map_;
  PythonThreads threads_;
};

// A probe of one process that runs a program: until it is destroyed, or this process ends.
class AttachedProbe {
 public:
  // `path`: the file that the process has mapped.
  [[nodiscard]] static Result<AttachedProbe> attach(uint32_t pid, const std::string& path,
                                                    const Probe& probe,
                                                    std::span<const bpf_insn> program);

 private:
  AttachedProbe(Descriptor program, Descriptor event)
      : program_(std::move(program)), event_(std::move(event)) {}
  Descriptor program_;
  Descriptor event_;
};

}  // namespace vram::attach
