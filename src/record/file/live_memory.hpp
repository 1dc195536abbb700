// The memory that is allocated and mapped after the records so far: it supplies the size and stream
// of a block whose free only has an address, and the initial state of a file that starts within a
// recording. Used only by the flusher.
#pragma once

#include "record/record.hpp"
#include "trace/event.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::record {

class LiveMemory {
 public:
  using Key = std::pair<uint16_t, uint64_t>;  // device, address

  struct Block {
    Record alloc;
    std::vector<Record> homes;  // where its pages are mapped while it does not live, if elsewhere
    std::optional<Record> name = {};  // the last name given to its address
    bool is_used_elsewhere = false;   // by another stream
    bool is_freed = false;            // and waits for that stream
  };

  // The block at the address, nullptr where none lives.
  [[nodiscard]] Block* find(const Record& record);
  [[nodiscard]] const Block* find(const Record& record) const;
  // A block at the same address is over: it must have been freed unseen.
  void add(const Record& alloc, std::vector<Record> homes = {});
  void remove(const Record& record);

  void map(const Record& segment);
  // The range may be a part of a mapping, or several mappings.
  void unmap(const Record& segment);

  // Of the segment that begins at the address; 0: none does.
  [[nodiscard]] uint64_t mapped_bytes(const Record& segment) const;
  // Returns the mapping at the address, as it was recorded; nullptr: none.
  [[nodiscard]] const Record* segment_at(const Record& record) const;
  // By address.
  [[nodiscard]] std::vector<Record> segments() const;
  [[nodiscard]] std::vector<Block> blocks() const;
  [[nodiscard]] size_t block_count() const { return blocks_.size(); }
  // Of all devices: in blocks, and mapped.
  [[nodiscard]] uint64_t block_bytes() const { return block_bytes_; }
  [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct HashOfKey {
    size_t operator()(const Key& key) const {
      return ((key.second >> 9) ^ (uint64_t{key.first} << 48)) * 0x9e3779b97f4a7c15u >> 7;
    }
  };
  std::unordered_map<Key, Block, HashOfKey> blocks_;
  std::map<Key, Record> segments_;
  uint64_t block_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
};

// EndState: an allocator's own list of its memory at the end of a file, with which readers check
// the events. Used only by the flusher.
class EndState {
 public:
  // A record of Op::kHeld*; segments, each before its parts, in any order.
  void add(const Record& record, const LiveMemory& live, trace::StreamId stream);

  [[nodiscard]] std::span<const trace::Segment> segments() const { return segments_; }
  [[nodiscard]] std::span<const trace::Block> blocks() const { return blocks_; }

 private:
  void add_part(const Record& record, const LiveMemory& live);

  std::vector<trace::Segment> segments_;
  std::vector<trace::Block> blocks_;
};

}  // namespace vram::record
