// SnapshotSink: recognizes a snapshot's dictionaries by their keys and makes records of them when
// they are complete: frames, stacks, entries (directly into Trace::events), blocks, segments,
// annotations. Keys and records may come in any order; unknown ones are counted and left out. Use
// it from one thread; makes no allocation for an event, except for growing arrays.
#pragma once

#include "trace/import/pickle/sink.hpp"
#include "trace/import/torch/collected.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vram::trace::torch {

class SnapshotSink final : public pickle::Sink {
 public:
  explicit SnapshotSink(Collected& collected) : all_(collected), tables_(collected.trace.tables) {}

  uint32_t text(std::string_view bytes) override { return all_.texts.number(bytes); }
  uint64_t number(uint64_t bits) override { return all_.numbers.keep(bits); }
  void begin_dict(unsigned slot) override;
  void set_items(unsigned slot, std::span<const pickle::Value> items) override;
  pickle::Value end_dict(unsigned slot) override;
  void begin_list(unsigned slot) override;
  void append(unsigned slot, std::span<const pickle::Value> items) override;
  pickle::Value end_list(unsigned slot) override;
  pickle::Value tuple(std::span<const pickle::Value> items) override;
  bool truncate_dict(unsigned slot, bool incomplete) override;
  void truncate_list(unsigned slot) override;
  [[nodiscard]] uint64_t memory_bytes() const override;

 private:
  using Value = pickle::Value;
  struct Dict {
    uint64_t keys = 0;  // bit per Key
    std::array<pickle::Value, kKeyCount> fields;
    Items others;
    [[nodiscard]] bool has(Key key) const { return (keys >> key & 1) != 0; }
    // kNone if the key is missing.
    [[nodiscard]] pickle::Value get(Key key) const {
      return has(key) ? fields[key] : pickle::Value{};
    }
  };
  struct List {
    Tag content = kEmpty;  // of its items
    uint64_t first = 0;
    uint64_t count = 0;
    uint64_t left_out = 0;
    bool truncated = false;
    uint32_t entry_list = Traces::kNoEntries;  // reserved when the first entry comes
    PodVector<FrameId> frames;
    std::vector<pickle::Value> scalars;
    std::vector<uint32_t> lists;
  };

  [[nodiscard]] uint64_t address_of(Value value) const { return all_.numbers.address(value); }
  [[nodiscard]] uint64_t amount_of(Value value) const { return all_.numbers.amount(value); }
  [[nodiscard]] int64_t time_ns_of(Value value) const { return all_.numbers.time_ns(value); }

  // sink.cpp
  void note_unknown_keys(const Dict& dict, const char* where);
  pickle::Value end_generic(const Dict& dict);
  pickle::Value end_root(const Dict& dict);
  // entries.cpp
  pickle::Value end_entry(const Dict& dict);
  pickle::Value end_annotation(const Dict& dict);
  pickle::Value end_user_defined(const Dict& dict);
  pickle::Value add_annotation(const Annotation& annotation, bool was_entry);
  ContextId context_of(const Dict& dict, StringId unknown_action);
  StreamId stream_of(const pickle::Value& value);
  PoolId pool_of(const pickle::Value& value);
  // state.cpp
  pickle::Value end_segment(const Dict& dict);
  pickle::Value end_block(const Dict& dict);
  pickle::Value end_tenant(const Dict& dict);
  std::span<Block> take_blocks(const pickle::Value& value, Segment& segment);
  // stacks.cpp
  pickle::Value end_frame(const Dict& dict);
  StringId string_of(const pickle::Value& value);
  StackId stack_of(const pickle::Value& value) const {
    return is(value, kStack) ? static_cast<StackId>(value.payload()) : 0;
  }
  StackId stack_of_frames(const Dict& dict);
  StackId intern_stack(std::span<const FrameId> frames);
  // lists.cpp
  void append_one(List& list, const pickle::Value& item);
  void append_to_range(List& list, const pickle::Value& item, const char* what);
  size_t append_frames(List& list, std::span<const pickle::Value> items);
  void append_frame(List& list, FrameId frame);
  void append_annotation(List& list, const pickle::Value& item);
  pickle::Value finish_list(List& list);
  pickle::Value finish_scalars(List& list);
  static bool accepts(List& list, Tag content);
  uint32_t entry_list_of(List& list);

  Collected& all_;
  Tables& tables_;
  std::array<Dict, pickle::kMaxOpen> dicts_;
  std::array<List, pickle::kMaxOpen + 1> lists_;  // the last one: a tuple at work
  uint64_t stack_bytes_ = 0;
  uint64_t kept_values_ = 0;  // in dicts and scalar lists: bounded

  // Neighbouring events mostly agree on these.
  struct ContextKey {
    StringId compile_id = 0, user_metadata = 0, category = 0;
    StackId forward_stack = 0;
    friend bool operator==(const ContextKey&, const ContextKey&) = default;
  };
  ContextKey last_context_key_;
  ContextId last_context_ = 0;
  uint64_t last_stream_handle_ = 0;
  StreamId last_stream_ = 0;
  uint64_t last_entry_keys_ = 0;
  pickle::Value last_pool_value_ = record(kPair);
  PoolId last_pool_ = 0;
};

}  // namespace vram::trace::torch
