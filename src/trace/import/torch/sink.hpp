// SnapshotSink: recognizes a snapshot's dictionaries by their keys, and lets the part that knows a
// kind make its record. Keys may come in any order, records in any order; unknown ones are counted
// and left out.
//
//     pickle machine ──▶ SnapshotSink ──▶ Lists      stacks, ranges of records, scalars
//                                     ──▶ Stacks     frames and stacks
//                                     ──▶ Entries    events (in Trace::events), annotations
//                                     ──▶ EndState   segments, blocks
//                          Names: streams, pools, contexts ──▶ Collected
//
// Use it from one thread; makes no allocation for an event, except for growing arrays.
#pragma once

#include "trace/import/pickle/sink.hpp"
#include "trace/import/torch/collected.hpp"
#include "trace/import/torch/lists.hpp"
#include "trace/import/torch/names.hpp"
#include "trace/import/torch/records.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vram::trace::torch {

class SnapshotSink final : public pickle::Sink {
 public:
  // collected must outlive this.
  explicit SnapshotSink(Collected& collected) : all_(collected) {}

  uint32_t text(std::string_view bytes) override { return all_.texts.number(bytes); }
  uint64_t number(uint64_t bits) override { return all_.numbers.keep(bits); }
  void begin_dict(unsigned slot) override { dicts_[slot].clear(); }
  void set_items(unsigned slot, std::span<const pickle::Value> items) override {
    dicts_[slot].set(items);
  }
  pickle::Value end_dict(unsigned slot) override;
  void begin_list(unsigned slot) override { lists_.begin(slot); }
  void append(unsigned slot, std::span<const pickle::Value> items) override {
    lists_.append(slot, items);
  }
  pickle::Value end_list(unsigned slot) override { return lists_.end(slot); }
  pickle::Value tuple(std::span<const pickle::Value> items) override { return lists_.tuple(items); }
  bool truncate_dict(unsigned slot, bool incomplete) override;
  void truncate_list(unsigned slot) override { lists_.truncated(slot); }
  [[nodiscard]] uint64_t memory_bytes() const override;
  [[nodiscard]] const std::optional<Error>& error() const override { return all_.error; }

 private:
  pickle::Value end_generic(const Dict& dict);
  pickle::Value end_root(const Dict& dict);

  Collected& all_;
  Stacks stacks_{all_};
  Names names_{all_};
  Entries entries_{all_, stacks_, names_};
  EndState state_{all_, stacks_, names_};
  Lists lists_{all_, stacks_};
  std::array<Dict, pickle::kMaxOpen> dicts_;
};

}  // namespace vram::trace::torch
