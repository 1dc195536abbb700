// Pool: the allocator of one device. Assembles its parts, each of which owns what it is named
// after:
//
//     allocate ──▶ sizes ──▶ Recall (where this request went in the last step, if that is free)
//              ──▶ placement (best fit among free blocks: the hot path, no driver call)
//              ──▶ ladder (what is done when no free block fits; where nothing helps: OomFacts)
//     free ──▶ returns ──▶ HeldBlocks (freed, and still used by other streams)
//     lend ──▶ Leases
//
//     blocks    the live blocks          arena     free and live memory, in nodes
//     supply    memory from the device   stock     the handles; stitches maps them again
//
// Physical memory belongs to the device, not to a stream or a size. Memory freed on one stream
// serves others once its work is done. One thread at a time (shared_pool.hpp is for several); never
// throws; calls to the driver only on the ladder, in trim(), and now and then for the order of
// several streams.
#pragma once

#include "pool/arena.hpp"
#include "pool/blocks.hpp"
#include "pool/device.hpp"
#include "pool/interface.hpp"
#include "pool/ladder.hpp"
#include "pool/oom.hpp"
#include "pool/placement.hpp"
#include "pool/returns.hpp"
#include "pool/stitches.hpp"
#include "pool/stock.hpp"
#include "pool/supply.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace vram::pool {

class Pool {
 public:
  // device must outlive it.
  explicit Pool(Device& device, const Options& options = {});
  // Waits for the device: whatever is mapped may still be in use.
  ~Pool() { (void)device_.synchronize(); }
  // Whether its address ranges could be had; without them it serves nothing.
  [[nodiscard]] bool is_ready() const { return is_ready_; }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] Allocation allocate(uint64_t bytes, StreamHandle stream);
  // The same, for who tries again: it is no failed request until count_oom().
  [[nodiscard]] Allocation try_allocate(uint64_t bytes, StreamHandle stream);
  void count_oom() { ++stats_.num_ooms; }
  // The block is free for its stream at once, for others when the stream's work is done.
  void free(BlockId block) { returns_.free(block); }
  // The stream uses the block, too: once freed, it waits for what that stream has queued by then.
  void record_stream(BlockId block, StreamHandle stream) { returns_.record_stream(block, stream); }
  // Freed, but in use until the caller calls finish(). A finished or unknown block is ignored: the
  // pool itself finishes all that it has waited for.
  void hold(BlockId block) { returns_.hold(block); }
  void finish(BlockId block) { returns_.finish(block); }
  // The stream is about to go, with all queued that ever will be; nothing is waited for. Its handle
  // is not used any more, and may name a new stream. What the stream was lent has come back before.
  void forget(StreamHandle stream) { returns_.forget(stream); }

  [[nodiscard]] bool is_live(BlockId block) { return blocks_.find(block) != nullptr; }
  // The block that has the index now, which there must be.
  [[nodiscard]] BlockId id_of(uint32_t index) const { return blocks_.id_of(index); }
  // The live block that holds the address; none: its info has no address.
  [[nodiscard]] BlockId block_at(Address address, BlockInfo* info) const;
  // Every part of its memory in no order; a block that is stitched has several parts, of which the
  // first has what was requested.
  template <typename Visit>
  void visit(Visit visit) const {
    for (NodeId id = 0; id < arena_.nodes().size(); ++id) {
      if (arena_[id].state != NodeState::kUnused) visit(info_of(id));
    }
  }

  // The next block's serial follows this one: for tests of what happens when they wrap.
  void restart_serials(uint32_t last) { blocks_.restart_serials(last); }

  // Whether events may be recorded (device.hpp). While they may not, memory passes from one stream
  // to another only as far as earlier events show that it is done.
  void allow_recording(bool is_allowed) { device_.allow_recording(is_allowed); }
  // Lends memory that the stream may use: a free piece of at least so many bytes, or new memory
  // where options let leases have it. It counts as reserved alone until it comes back, piece by
  // piece from its beginning: as a live block, or free.
  [[nodiscard]] bool lend(uint64_t min_bytes, uint64_t max_bytes, StreamHandle stream,
                          Lease* lease);
  [[nodiscard]] BlockId keep(Lease* lease, uint64_t bytes, uint64_t requested_bytes,
                             StreamHandle stream);
  void give_back(Lease* lease, uint64_t bytes, StreamHandle stream);
  [[nodiscard]] uint64_t lent_bytes() const { return leases_.bytes(); }

  // Waits for all streams that use its memory; what was held is free then. Where one can't be
  // waited for, the answer says why; what the others have finished is free all the same.
  [[nodiscard]] Status wait() { return returns_.wait(); }
  // Gives memory back to the device, so many bytes if it can; how many it was.
  uint64_t trim(uint64_t bytes) { return supply_.trim(bytes); }
  // Gives all mappings the access rights that the device has now.
  [[nodiscard]] Status renew_access() { return supply_.renew_access(); }
  // The maximum of reserved bytes from now on; memory above it stays until it is trimmed.
  void limit(uint64_t bytes) { supply_.limit(bytes); }
  [[nodiscard]] uint64_t limit_bytes() const { return supply_.limit_bytes(); }
  // Called before the pool does anything costly: the caller may free blocks in it, and says whether
  // it had any to free.
  void on_shortage(bool (*answer)(void* caller), void* caller) {
    ladder_.on_shortage(answer, caller);
  }

  // Notified from now on; nullptr: no observer. Must outlive the pool.
  void set_observer(Observer* observer) {
    supply_.set_observer(observer);
    returns_.set_observer(observer);
  }
  void report_all(Observer& observer) const;
  // Of a block that is shown elsewhere than at its home, where that is; of others, nothing.
  void report_parts(BlockId block, Observer& observer) const;

  [[nodiscard]] const Stats& stats() const { return stats_; }
  void reset_peaks() { stats_.reset_peaks(); }
  void reset_sums() { stats_.reset_sums(); }
  [[nodiscard]] Backing backing() const { return options_.backing; }
  // Whether the address has a home here.
  [[nodiscard]] bool holds(Address address) const { return arena_.at(address) != kNoNode; }
  // Where its addresses may lie; empty for segments, which lie anywhere.
  [[nodiscard]] std::array<std::pair<Address, uint64_t>, 2> ranges() const;
  [[nodiscard]] const OomFacts& last_oom() const { return oom_; }
  // Largest free block that a stream might use.
  [[nodiscard]] uint64_t largest_free_bytes() const { return arena_.largest_free_bytes(); }
  // Walks over everything; why says what does not hold.
  [[nodiscard]] bool validate(std::string* why = nullptr) const;

 private:
  [[nodiscard]] bool grow_beside_leases(const Wanted& wanted);
  [[nodiscard]] Allocation climb(const Wanted& wanted);
  [[nodiscard]] Allocation fail(uint64_t requested_bytes);
  [[nodiscard]] BlockInfo info_of(NodeId id) const;
  void report_parts(const Blocks::Block& block, Observer& observer) const;
  [[nodiscard]] std::string check_blocks() const;

  Device& device_;
  Options options_;
  Stats stats_;
  Stock stock_;
  Stitches stitches_;
  Arena arena_;
  Leases leases_{arena_};
  Blocks blocks_{arena_, stitches_, stats_};
  Supply supply_{device_, options_, stock_, stitches_, arena_, leases_, stats_};
  Returns returns_{device_, arena_, stitches_, blocks_, supply_};
  Recall recall_;
  Placement placement_{arena_, stitches_, blocks_, stats_};
  Ladder ladder_{device_, options_,   arena_,   stock_, stitches_,
                 supply_, placement_, returns_, stats_};
  OomFacts oom_;
  bool is_ready_ = false;
};

}  // namespace vram::pool
