// Target: a running process that is to be recorded: the libraries with PyTorch's probes that it has
// loaded, and what a recording states about the process. Reads /proc only; the process notices
// nothing.
#pragma once

#include "attach/probes.hpp"
#include "base/file.hpp"
#include "base/result.hpp"
#include "record/process.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::attach {

// A file with probes. `path` leads to the file that the process has mapped, also in its own mount
// namespace, and if another file has taken its name.
struct ProbedLibrary {
  std::string path;
  std::string name;  // as the process sees it
  std::vector<Probe> probes;
};

// A file of which the process has mapped a part.
struct MappedFile {
  std::string path;      // leads to the mapped file, as ProbedLibrary::path
  std::string name;      // as the process sees it
  uint64_t address = 0;  // of its first mapped part
};

enum class TargetState : uint8_t {
  kRuns,
  kEnded,
  kReplaced,  // it called exec: another program, with none of its memory
};

class Target {
 public:
  // kNotFound: no such process. kBadInput: a thread of another process, or a kernel's thread.
  // kUnsupported: its main thread has ended, and others run. kIo: its files may not be read.
  [[nodiscard]] static Result<Target> open(uint32_t pid);

  // Regular files, each once.
  [[nodiscard]] Result<std::vector<MappedFile>> files() const;
  // kNotFound: none has the probes malloc and free of `provider`. Several: the process has loaded
  // several copies, or a library that contains another.
  [[nodiscard]] Result<std::vector<ProbedLibrary>> libraries(const std::string& provider) const;
  struct Namespace {
    uint64_t device = 0;
    uint64_t inode = 0;
  };
  [[nodiscard]] Result<Namespace> pid_namespace() const;
  [[nodiscard]] TargetState state() const;
  // Readable when the process has ended; -1 if the kernel is older than 5.3.
  [[nodiscard]] int descriptor() const { return process_.number(); }
  [[nodiscard]] uint32_t pid() const { return pid_; }
  [[nodiscard]] std::vector<record::Fact> facts() const;

 private:
  explicit Target(uint32_t pid) : pid_(pid), folder_("/proc/" + std::to_string(pid)) {}
  struct Stat {
    uint64_t start_ticks = 0;
    uint64_t stack_address = 0;  // another one after exec; 0: not allowed to know
  };
  [[nodiscard]] Result<Stat> stat() const;
  [[nodiscard]] Result<> check_is_process() const;

  uint32_t pid_;
  std::string folder_;
  Descriptor process_;
  Stat first_;
};

}  // namespace vram::attach
