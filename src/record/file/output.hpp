// RecordOutput: where the flusher's records go: a recording, or the window of a flight recorder.
#pragma once

#include "base/result.hpp"
#include "record/process.hpp"
#include "record/record.hpp"

#include <cstdint>

namespace vram::record {

class RecordOutput {
 public:
  virtual ~RecordOutput() = default;
  [[nodiscard]] virtual Result<> add(const Record& record) = 0;
  virtual void add(const Fact& fact) = 0;
  // Some records did not get here.
  virtual void note_lost(uint64_t records) = 0;
  // What was added is in the file; may begin a new one.
  [[nodiscard]] virtual Result<> flush() = 0;
  // Completes the file; nothing may be added afterwards.
  [[nodiscard]] virtual Result<> finish() = 0;
  // Of the file that is written, and of those before it.
  [[nodiscard]] virtual uint64_t written_bytes() const = 0;
  [[nodiscard]] virtual uint64_t event_count() const = 0;
};

}  // namespace vram::record
