// Stitches: handles mapped a second time, one behind the other, so that free memory from several
// places is seen as one range: the tail of one handle, whole ones, the head of another. Nothing is
// moved or unmapped for it, so no work need be waited for. A stitch outlives its block: when the
// same memory is free again it serves again, without the driver. Below the pool's recipe.
//
// Idle ones are dropped, the longest idle first, when more is mapped than allowed or addresses run
// out, and only when the work of all blocks that were in them is done. One thread at a time;
// allocates for each stitch.
#pragma once

#include "pool/device.hpp"
#include "pool/node.hpp"
#include "pool/stock.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vram::pool {

using StitchId = uint32_t;
inline constexpr StitchId kNoStitch = std::numeric_limits<StitchId>::max();

class Stitches {
 public:
  struct Stitch {
    Address address = 0;  // 0: none has this id now
    uint64_t bytes = 0;
    std::vector<HandleId> handles;
    std::vector<NodeId> parts;                        // of the block in it; none: idle
    std::vector<std::pair<Address, uint64_t>> shown;  // home and bytes of the last block's parts
    uint64_t offset_bytes = 0;                        // and where they begin
    // Work on blocks that were in it, which may not be done: the last of each stream. A window of
    // the stitch serves one stream, another window the next.
    std::vector<std::pair<StreamHandle, Stamp>> pending;
    uint64_t last_use = 0;
    [[nodiscard]] bool is_idle() const { return parts.empty(); }
  };

  struct Patch {
    size_t index = 0;  // among the stitch's handles
    HandleId handle = kNoHandle;
  };

  Stitches(Device& device, const Stock& stock)
      : device_(device), memory_(device.memory()), stock_(stock) {}
  ~Stitches();
  Stitches(const Stitches&) = delete;
  Stitches& operator=(const Stitches&) = delete;

  [[nodiscard]] Status reserve(uint64_t bytes);
  // Maps the handles one behind the other. A call that fails changes nothing.
  [[nodiscard]] Status add(const std::vector<HandleId>& handles, StitchId* id);
  // Exchanges handles of an idle stitch for others as large. Refused, and nothing changed, while
  // work on blocks that were in it is not done; dropped where the driver fails in between.
  [[nodiscard]] Status patch(StitchId id, const std::vector<Patch>& patches);
  // Parts of a block, from that offset on, with their homes.
  void use(StitchId id, std::vector<NodeId> parts, uint64_t offset_bytes,
           std::vector<std::pair<Address, uint64_t>> shown);
  // The block in it is gone after the stamped work; stamp 0: no work.
  std::vector<NodeId> unuse(StitchId id, StreamHandle stream, Stamp stamp);
  // Drops idle ones until so many bytes are mapped, as far as their work is done.
  void drop_until(uint64_t bytes);
  // The stream goes by another name.
  void rename(StreamHandle stream, StreamHandle alias);
  // Drops all that show the handle; false where that can't be.
  [[nodiscard]] bool drop_all_of(HandleId handle);

  [[nodiscard]] const Stitch& operator[](StitchId id) const { return stitches_[id]; }
  [[nodiscard]] StitchId limit() const { return static_cast<StitchId>(stitches_.size()); }
  // The stitch that shows its handles there; kNoStitch where none does.
  [[nodiscard]] StitchId at(Address address) const;
  // Where stitches may be: no address outside is in one.
  [[nodiscard]] Address base() const { return base_; }
  [[nodiscard]] uint64_t reserved_bytes() const { return reserved_bytes_; }
  [[nodiscard]] uint64_t mapped_bytes() const { return mapped_bytes_; }
  [[nodiscard]] std::string validate() const;

 private:
  [[nodiscard]] Address take_addresses(uint64_t bytes);  // 0: none left
  void give_back_addresses(Address address, uint64_t bytes);
  [[nodiscard]] Status map_all(const Stitch& stitch, uint64_t* mapped_bytes);
  [[nodiscard]] bool unmap(Address address, uint64_t bytes);
  [[nodiscard]] Status exchange(Stitch& stitch, const Patch& patch);
  void forget(StitchId id, bool is_unmapped);
  void drop_around(StitchId id, size_t index);
  [[nodiscard]] bool drop(StitchId id);
  [[nodiscard]] bool is_done(Stitch& stitch);
  // Drops idle ones, the longest idle first, until that is enough.
  template <typename IsEnough>
  void drop_idle(IsEnough is_enough);

  Device& device_;
  gpu::Memory& memory_;
  const Stock& stock_;
  Address base_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  uint64_t uses_ = 0;
  std::map<Address, uint64_t> addresses_;  // not in use
  // The driver refused to unmap: out of use, tried again at the end.
  std::vector<std::pair<Address, uint64_t>> orphans_;
  uint64_t lost_bytes_ = 0;  // of addresses
  std::vector<Stitch> stitches_;
  std::vector<StitchId> spare_;
};

}  // namespace vram::pool
