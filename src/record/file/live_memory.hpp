// What is allocated and mapped after the records so far: a free that names only an address gets its
// block's size and stream from here, and a file that begins in the middle of a recording gets what
// was there. The flusher's alone.
#pragma once

#include "record/record.hpp"

#include <cstddef>
#include <map>
#include <optional>
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
    std::optional<Record> name = {};  // the last that was said of where it begins
    bool is_used_elsewhere = false;   // by a stream besides its own
    bool is_freed = false;            // and waits for that stream
  };

  // The block at the address, nullptr where none lives.
  [[nodiscard]] Block* find(const Record& record);
  [[nodiscard]] const Block* find(const Record& record) const;
  // A block at the same address is over: it must have been freed unseen.
  void add(const Record& alloc, std::vector<Record> homes = {});
  void remove(const Record& record);

  void map(const Record& segment);
  // May be a part of what was mapped at once, or several.
  void unmap(const Record& segment);

  // Of the segment that begins at the address; 0: none does.
  [[nodiscard]] uint64_t mapped_bytes(const Record& segment) const;
  // What is mapped at the address, as it was said; nullptr where nothing is.
  [[nodiscard]] const Record* segment_at(const Record& record) const;
  // By address.
  [[nodiscard]] std::vector<Record> segments() const;
  [[nodiscard]] std::vector<Block> blocks() const;

 private:
  struct HashOfKey {
    size_t operator()(const Key& key) const {
      return ((key.second >> 9) ^ (uint64_t{key.first} << 48)) * 0x9e3779b97f4a7c15u >> 7;
    }
  };
  std::unordered_map<Key, Block, HashOfKey> blocks_;
  std::map<Key, Record> segments_;
};

}  // namespace vram::record
