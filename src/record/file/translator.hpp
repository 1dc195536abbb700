// Translator: converts records to the contents of a trace: events, regions, and the tables of one
// file. Process-wide numbers get numbers of the file at their first use. Used only by the flusher.
#pragma once

#include "record/record.hpp"
#include "record/stores.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <unordered_map>
#include <utility>

namespace vram::record {

class Translator {
 public:
  using Describe = FrameText (*)(FrameNumber);

  // describe returns the meaning of a frame number.
  explicit Translator(Describe describe) : describe_(describe) {}

  [[nodiscard]] trace::Event event(const Record& record, trace::EventKind kind);
  [[nodiscard]] trace::Annotation annotation(const Record& record, bool is_begin);
  [[nodiscard]] trace::Annotation step(const Record& record, uint64_t number, bool is_begin);
  [[nodiscard]] trace::Figure figure(const Record& record);
  [[nodiscard]] trace::Mark mark(const Record& record);
  // Has the block's size and stream, and the moment, stack and scope of its free.
  [[nodiscard]] trace::Event event_of_free(const Record& alloc, const Record& free,
                                           trace::EventKind kind);
  [[nodiscard]] trace::StreamId stream(const Record& record) {
    return tables_.streams.intern(record.stream);
  }
  [[nodiscard]] const trace::Tables& tables() const { return tables_; }

 private:
  [[nodiscard]] trace::StringId text(TextId id);
  [[nodiscard]] trace::StackId stack(StackId id);
  [[nodiscard]] trace::FrameId frame(FrameNumber number);
  [[nodiscard]] trace::ContextId context(TextId scope, TextId category);

  Describe describe_;
  trace::Tables tables_;
  std::unordered_map<TextId, trace::StringId> texts_;
  std::unordered_map<StackId, trace::StackId> stacks_;
  std::unordered_map<FrameNumber, trace::FrameId> frames_;
  std::unordered_map<uint64_t, trace::ContextId> contexts_;
};

}  // namespace vram::record
