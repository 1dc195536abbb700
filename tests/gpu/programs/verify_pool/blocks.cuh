// What a thread of verify_pool does with blocks: it allocates, writes, checks, shares and frees
// them in streams that all threads use.
//
// Everything is done as the pool's contract asks, so whatever comes out wrong is the allocator's
// error:
//
//   - A block is written in its own stream, or in another one that waits for it and that it waits
//     for afterwards.
//   - Another stream that only reads waits for the block's stream and is named to the pool. Unless
//     the block's stream waits for it in turn, the block is never written again.
//   - A block whose stream was destroyed (an orphan) is read by a stream that waits for the end of
//     the old one.
#pragma once

#include "queue.cuh"

#include <algorithm>
#include <utility>

class Blocks : protected Queue {
 protected:
  Blocks(Machine& machine, int thread) : Queue(machine, thread) {
    const auto threads = static_cast<size_t>(machine.options.threads);
    target_bytes_ = machine.options.limit_bytes / 2 * 3 / threads *
                    static_cast<size_t>(machine.options.devices);
  }
  using Shared = std::shared_lock<std::shared_mutex>;

  [[nodiscard]] const Memory& memory(int device) {
    return machine_.devices[static_cast<size_t>(device)]->memory;
  }
  Slot& any_slot(int device) {
    auto& slots = machine_.devices[static_cast<size_t>(device)]->slots;
    return *slots[below(slots.size())];
  }
  int any_device() { return static_cast<int>(below(static_cast<Word>(machine_.options.devices))); }
  // Mostly small, some large, evenly over the powers of two.
  size_t any_size() {
    const Word dice = below(100);
    const size_t most = machine_.options.max_bytes;
    const size_t low = dice < 80 ? 512 : dice < 97 ? most >> 9 : most >> 4;
    const size_t high = dice < 80 ? most >> 9 : dice < 97 ? most >> 4 : most;
    size_t base = low;
    while (base * 2 < high && chance(800)) base *= 2;
    return (base + below(base)) / sizeof(Word) * sizeof(Word);
  }
  static bool is_orphan(const Block& block) { return block.slot->life != block.life; }

  // VRAM_OK, or what a request may be answered with.
  vram_status request(Slot& slot, size_t bytes, Block* block) {
    *block = {slot.device, nullptr, bytes, 0, &slot, slot.life, false};
    void* address = nullptr;
    const vram_status status = memory(slot.device).alloc(bytes, block->life->stream, &address);
    block->address = static_cast<Word*>(address);
    if (status == VRAM_OUT_OF_MEMORY) {
      add(worker_.counters.out_of_memory);
    } else {
      check(status, "vram_alloc");
      note("allocated", *block);
      add(worker_.counters.allocations);
      live_bytes_ += bytes;
      if (reinterpret_cast<size_t>(address) % 512 != 0)
        machine_.fail("a block that is not aligned to 512 bytes");
    }
    return status;
  }
  void allocate_in(Slot& slot) {
    Block block;
    if (request(slot, any_size(), &block) != VRAM_OK) return;
    on(slot.device);
    if (chance(200)) delay(slot.device, block.life->stream);
    write(block, block.life->stream);
    if (chance(500)) verify(block, block.life->stream);
    blocks_.push_back(block);
  }
  void allocate() {
    if (live_bytes_ > target_bytes_) return free_any();
    Slot& slot = any_slot(any_device());
    const size_t before = blocks_.size();
    {
      const Shared shared(slot.lock);
      allocate_in(slot);
    }
    if (blocks_.size() > before) return;
    for (size_t count = blocks_.size() / 2; count > 0; --count) free_block(below(blocks_.size()));
  }
  void free_any() {
    if (!blocks_.empty()) free_block(below(blocks_.size()));
  }
  Block take_block(size_t index) {
    std::swap(blocks_[index], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  // Work of all kinds is still queued when the block is freed.
  void free_block(size_t index) {
    Block block = take_block(index);
    if (!chance(100)) {
      const Shared shared(block.slot->lock);
      const cudaStream_t stream = block.life->stream;
      if (!is_orphan(block)) {
        on(block.device);
        delay(block.device, stream);
        verify(block, stream);
        if (!block.is_only_read && chance(300)) write(block, stream);
        add(worker_.counters.early_frees);
        if (chance(500)) return release(block);
      }
    }
    if (chance(500)) verify_if_orphan(&block);
    release(block);
  }
  void release(const Block& block) {
    note("freed", block);
    check(memory(block.device).free(block.address), "vram_free");
    live_bytes_ -= std::min(live_bytes_, block.bytes);
  }
  // Another thread's, with its checks queued.
  void free_all(std::vector<Block>& store) {
    Block block;
    while (machine_.take(store, &block)) {
      note("freed", block);
      check(memory(block.device).free(block.address), "vram_free");
    }
  }

  void verify_if_orphan(Block* block) {
    Slot& slot = any_slot(block->device);
    const Shared shared(slot.lock);
    // Its own slot may have a new stream at any moment, but an orphan stays one.
    if (!is_orphan(*block)) return;
    const cudaStream_t stream = slot.life.load()->stream;
    on(block->device);
    check(cudaStreamWaitEvent(stream, block->life->end, 0), "cudaStreamWaitEvent");
    check(memory(block->device).record_stream(block->address, stream), "vram_record_stream");
    verify(*block, stream);
    block->is_only_read = true;
    add(worker_.counters.orphans);
  }
  void verify_any() {
    if (blocks_.empty()) return;
    Block& block = blocks_[below(blocks_.size())];
    {
      const Shared shared(block.slot->lock);
      if (!is_orphan(block)) {
        on(block.device);
        return verify(block, block.life->stream);
      }
    }
    verify_if_orphan(&block);
  }
  void write_again() {
    if (blocks_.empty()) return;
    Block& block = blocks_[below(blocks_.size())];
    const Shared shared(block.slot->lock);
    if (is_orphan(block) || block.is_only_read) return;
    on(block.device);
    if (chance(200)) delay(block.device, block.life->stream);
    verify(block, block.life->stream);
    write(block, block.life->stream);
  }
  void use_elsewhere() {
    if (blocks_.empty()) return;
    Block& block = blocks_[below(blocks_.size())];
    Slot& other = any_slot(block.device);
    if (&other == block.slot) return;
    const Shared shared(block.slot->lock), shared_other(other.lock);
    if (is_orphan(block)) return;
    const cudaStream_t own = block.life->stream, stream = other.life.load()->stream;
    const bool is_written = !block.is_only_read && chance(300);
    const bool is_joined = is_written || chance(400);
    // The pool need not know of a stream that the block's own stream waits for.
    const bool is_named = !is_joined || chance(500), is_named_first = chance(500);
    const auto name = [&] {
      note("named", block, stream);
      check(memory(block.device).record_stream(block.address, stream), "vram_record_stream");
    };
    order(block.device, own, block.device, stream);
    if (is_named && is_named_first) name();
    delay(block.device, stream);
    verify(block, stream);
    if (is_written) write(block, stream);
    if (is_named && !is_named_first) name();
    if (is_joined) order(block.device, stream, block.device, own);
    block.is_only_read = block.is_only_read || !is_joined;
    add(worker_.counters.other_stream_uses);
  }

  bool queue_last_check(const Block& block) {
    const Shared shared(block.slot->lock);
    if (is_orphan(block)) return false;
    on(block.device);
    verify(block, block.life->stream);
    return true;
  }
  void hand_to(std::vector<Block>& store) {
    if (blocks_.empty()) return;
    const size_t index = below(blocks_.size());
    if (!queue_last_check(blocks_[index])) return;
    if (!machine_.put(store, blocks_[index])) return;
    live_bytes_ -= std::min(live_bytes_, take_block(index).bytes);
  }
  void hand_over() { hand_to(machine_.handed_over); }
  void take_over() {
    Block block;
    if (!machine_.take(machine_.handed_over, &block)) return;
    blocks_.push_back(block);
    live_bytes_ += block.bytes;
    add(worker_.counters.handed_over);
  }
  void spare() { hand_to(machine_.spare); }

  std::vector<Block> blocks_;
  size_t live_bytes_ = 0;

 private:
  size_t target_bytes_ = 0;
};
