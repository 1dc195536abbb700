// The Python stacks of another process: where CPython keeps each thread's frames, for the program
// of a probe to copy, and what a copied frame means. Reads the process's memory and writes none.
//
// CPython's structures differ from version to version; layouts are known for 3.11 to 3.13, as their
// headers define them (release builds with the GIL). What is read is checked: a frame whose code is
// no code object is left out.
#pragma once

#include "attach/target.hpp"
#include "base/result.hpp"
#include "record/stacks/frame_layout.hpp"
#include "record/stores.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::attach {

inline constexpr size_t kMaxPythonFrames = 64;

// One frame, as a probe's program copies it.
struct PythonFrame {
  uint64_t code = 0;         // the code object
  uint64_t instruction = 0;  // its address
};

// A thread by its number in its own pid namespace, and its thread state in CPython.
using PythonThreads = std::map<uint32_t, uint64_t>;

class PythonProcess {
 public:
  // kNotFound: the process runs no Python. kUnsupported: a version whose layout is unknown.
  [[nodiscard]] static Result<PythonProcess> open(const Target& target);

  [[nodiscard]] const record::FrameLayout& frame_layout() const;
  // Those that exist now. Threads that run no Python are absent.
  [[nodiscard]] PythonThreads threads() const;
  // The frame's number in this process (see describe()); nothing: no frame of Python code. The
  // process may have freed the code meanwhile.
  [[nodiscard]] std::optional<record::FrameNumber> number(const PythonFrame& frame);
  // Of all processes.
  [[nodiscard]] static record::FrameText describe(record::FrameNumber number);

 private:
  struct Layout;
  PythonProcess(uint32_t pid, const Layout& layout) : pid_(pid), layout_(&layout) {}
  [[nodiscard]] static const Layout* layout_of(uint64_t version);
  [[nodiscard]] bool read(uint64_t address, void* to, size_t bytes) const;
  template <typename Value>
  [[nodiscard]] std::optional<Value> read(uint64_t address) const {
    Value value{};
    return read(address, &value, sizeof value) ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::string> read_text(uint64_t object) const;
  [[nodiscard]] std::optional<std::string> read_bytes(uint64_t object) const;
  [[nodiscard]] std::optional<record::FrameText> read_frame(const PythonFrame& frame) const;
  [[nodiscard]] uint32_t line_of(const PythonFrame& frame, uint32_t first_line,
                                 const std::string& table) const;

  struct HashFrame {
    size_t operator()(const std::pair<uint64_t, uint64_t>& frame) const {
      return frame.first * 0x9e3779b97f4a7c15u ^ frame.second;
    }
  };
  uint32_t pid_;
  const Layout* layout_;
  uint64_t interpreter_ = 0;
  uint64_t code_type_ = 0;
  std::unordered_map<std::pair<uint64_t, uint64_t>, std::optional<record::FrameNumber>, HashFrame>
      numbers_;
};

}  // namespace vram::attach
