// PickledTables: the interned texts, frames and stacks of a recording in a pickle: each is written
// where it is first used, and referred to from there on. Internal to exports/torch; one thread.
#pragma once

#include "base/pod_vector.hpp"
#include "exports/export_file.hpp"
#include "exports/torch/pickle.hpp"
#include "trace/import/torch/keywords.hpp"
#include "trace/tables.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace vram::exports {

class PickledTables {
 public:
  // Writes to the file's text. Both arguments must outlive this.
  PickledTables(const trace::Tables& tables, ExportFile& file);

  [[nodiscard]] PickleWriter& pickle() { return out_; }
  // The first bytes of the file.
  void begin(std::string_view bytes) { file_.text() += bytes; }

  // A key or a word of PyTorch's snapshots.
  void keyword(uint32_t keyword);
  void text(trace::StringId id);
  // Items of a dictionary.
  void item(trace::torch::Key key, uint64_t value) {
    keyword(key);
    out_.unsigned_integer(value);
  }
  void word_item(trace::torch::Key key, trace::torch::Word word) {
    keyword(key);
    keyword(word);
  }
  void text_item(trace::torch::Key key, trace::StringId id) {
    keyword(key);
    text(id);
  }
  // A time, with what it has beyond microseconds.
  void time_items(int64_t time_ns);
  // One of few texts, each of which stays at its address.
  void word(std::string_view text);
  // The list of a stack's frames.
  void frames(trace::StackId id);
  // The list of the functions of its frames, as which stacks of mere texts are read.
  void functions(trace::StackId id);

  // Calls write_item for each item of a list that was begun, in parts.
  template <typename List, typename WriteItem>
  void items(const List& list, WriteItem&& write_item) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i % kMaxItems == 0) {
        if (i != 0) out_.append_items();
        file_.flush_if_large();
        out_.mark();
      }
      write_item(list[i]);
    }
    if (!list.empty()) out_.append_items();
  }

 private:
  // Readers keep the items of a list on a stack until they are appended; JavaScript's also pass
  // them as arguments of one call. Python's own pickles have as many.
  static constexpr size_t kMaxItems = 1000;
  // The first slots of the memo, which are short to refer to, are those of keywords.
  static constexpr uint32_t kFirstSlot = 256;
  static_assert(trace::torch::kKeywordCount < kFirstSlot);

  void frame(trace::FrameId id);
  // Refers to what has a slot; gives one to what has none, for the caller to fill.
  bool get(uint32_t& slot);

  const trace::Tables& tables_;
  ExportFile& file_;
  PickleWriter out_;
  std::array<bool, trace::torch::kKeywordCount> has_keyword_ = {};
  uint32_t next_slot_ = kFirstSlot;
  // By id; 0: not written yet.
  PodVector<uint32_t> string_slots_;
  PodVector<uint32_t> frame_slots_;
  PodVector<uint32_t> stack_slots_;
  PodVector<uint32_t> function_slots_;
  std::unordered_map<std::string_view, uint32_t> word_slots_;
};

}  // namespace vram::exports
