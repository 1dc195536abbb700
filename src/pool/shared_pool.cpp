#include "pool/shared_pool.hpp"

#include "base/thread_end.hpp"
#include "pool/sizes.hpp"

#include <algorithm>

namespace vram::pool {
namespace {

// Threads compete when for a while more than one visit of 33 meets another; no longer when some
// hundreds have met no other, or fewer if the pool has refused them.
constexpr uint32_t kContentionHeat = 32;
constexpr uint32_t kHot = 256;
constexpr uint32_t kHottest = 512;

}  // namespace

SharedPool::SharedPool(Device& device, const Options& options) : pool_(device, options) {
  pool_.on_shortage([](void* self) { return static_cast<SharedPool*>(self)->collect(); }, this);
}

void SharedPool::on_oom(Reclaim reclaim, void* owner) {
  reclaim_ = reclaim;
  owner_ = owner;
}

void SharedPool::lock_pool() {
  if (lock_.try_lock()) {
    heat_ -= heat_ > 0 ? 1 : 0;
    return;
  }
  lock_.lock();
  heat_ += kContentionHeat;
  if (heat_ >= kHot) heat_ = kHottest;
}

void SharedPool::assume_competition() {
  const std::lock_guard guard(lock_);
  heat_ = kHottest;
}

// Makes parts of what was lent the pool's own again, which is locked: those of a lease in order.
auto SharedPool::taking_back() {
  return [this, rest = Lease()](const Lease& lease, StreamHandle stream,
                                const Shelf::Part& part) mutable {
    if (part.address == lease.address) rest = lease;
    if (!part.is_live) return pool_.give_back(&rest, part.size_bytes, stream);
    const BlockId block = pool_.keep(&rest, part.size_bytes, part.requested_bytes, stream);
    blocks_.set(part.address, block.index);
    returned_.add(part.size_bytes, part.requested_bytes);
  };
}

// What the shelves were lent becomes the pool's again, which is locked; whether there was any.
bool SharedPool::collect() {
  bool had_any = false;
  for (Shelf& shelf : shelves_) {
    if (shelf.lent_bytes() == 0) continue;
    collect(shelf);
    had_any = true;
  }
  return had_any;
}

void SharedPool::collect(Shelf& shelf) { shelf.clear(taking_back()); }

Address SharedPool::allocate(uint64_t bytes, StreamHandle stream) {
  Shelf& shelf = shelves_[thread_number() % kShelves];
  if (shelf.lent_bytes() >= bytes && shelf.lent_bytes() > 0) {
    if (const Address address = shelf.allocate(bytes, stream); address != 0) return address;
  }
  const Address address = request(bytes, stream, shelf);
  if (address != 0) return address;
  Address again = 0;
  if (reclaim_ != nullptr && reclaim_(owner_, bytes)) again = request(bytes, stream, shelf);
  if (again == 0) count_oom();
  return again;
}

Address SharedPool::request(uint64_t bytes, StreamHandle stream, Shelf& shelf) {
  lock_pool();
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (heat_ >= kHot && lend(bytes, stream, shelf)) {
    // Another thread that has this shelf, too, may have been quicker.
    if (const Address address = shelf.allocate(bytes, stream); address != 0) return address;
  }
  const Allocation got = pool_.try_allocate(bytes, stream);
  if (got.address != 0) blocks_.set(got.address, got.block.index);
  return got.address;
}

// Where the pool has no more to lend, memory is short: threads meet it itself for a while.
bool SharedPool::lend(uint64_t bytes, StreamHandle stream, Shelf& shelf) {
  uint64_t most = shelf.lease_bytes(bytes);
  if (most == 0) {
    shelf.give_back_idle(taking_back());
    most = shelf.lease_bytes(bytes);
  }
  if (most == 0) {
    collect(shelf);
    most = shelf.lease_bytes(bytes);
  }
  Lease lease;
  if (!pool_.lend(bytes, most, stream, &lease)) {
    heat_ -= std::min(heat_, kContentionHeat);
    return false;
  }
  shelf.add(lease, stream);
  ++lends_;
  return true;
}

void SharedPool::count_oom() {
  const std::lock_guard guard(lock_);
  pool_.count_oom();
}

bool SharedPool::free(Address address) {
  Shelf& shelf = shelves_[thread_number() % kShelves];
  if (shelf.lent_bytes() > 0 && shelf.free(address)) return true;
  lock_pool();
  const std::lock_guard guard(lock_, std::adopt_lock);
  const uint32_t block = blocks_.take(address);
  if (block == AddressMap::kNone) return free_elsewhere(address);
  pool_.free(pool_.id_of(block));
  return true;
}

// A block that another thread's shelf has handed out.
bool SharedPool::free_elsewhere(Address address) {
  return std::ranges::any_of(
      shelves_, [address](Shelf& shelf) { return shelf.lent_bytes() > 0 && shelf.free(address); });
}

bool SharedPool::record_stream(Address address, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  for (Shelf& shelf : shelves_) {
    if (shelf.lent_bytes() > 0 && shelf.give_back(address, taking_back())) break;
  }
  const uint32_t block = blocks_.find(address);
  if (block == AddressMap::kNone) return false;
  pool_.record_stream(pool_.id_of(block), stream);
  return true;
}

void SharedPool::forget(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  (void)collect();
  pool_.forget(stream);
}

BlockInfo SharedPool::block_at(Address address) {
  const std::lock_guard guard(lock_);
  BlockInfo info;
  for (Shelf& shelf : shelves_) {
    if (shelf.lent_bytes() > 0 && shelf.find(address, &info)) return info;
  }
  // Else it may be the middle of a shelf's block.
  if (blocks_.find(address) == AddressMap::kNone) (void)collect();
  (void)pool_.block_at(address, &info);
  return info;
}

bool SharedPool::owns(Address address) {
  for (const auto& [base, bytes] : pool_.ranges()) {
    if (address - base < bytes) return true;
  }
  if (pool_.backing() == Backing::kVirtual) return false;
  const std::lock_guard guard(lock_);
  return pool_.holds(address);
}

uint64_t SharedPool::trim(uint64_t bytes) {
  const std::lock_guard guard(lock_);
  (void)collect();
  (void)pool_.wait();
  return pool_.trim(bytes);
}

void SharedPool::begin_capture() {
  const std::lock_guard guard(lock_);
  pool_.allow_recording(++captures_ == 0);
}

void SharedPool::end_capture() {
  const std::lock_guard guard(lock_);
  if (captures_ > 0) --captures_;
  pool_.allow_recording(captures_ == 0);
}

void SharedPool::limit(uint64_t bytes) {
  const std::lock_guard guard(lock_);
  pool_.limit(bytes);
}

uint64_t SharedPool::limit_bytes() {
  const std::lock_guard guard(lock_);
  return pool_.limit_bytes();
}

Status SharedPool::renew_access() {
  const std::lock_guard guard(lock_);
  return pool_.renew_access();
}

// Blocks count wherever they live, and once.
void SharedPool::count(const Shelf::Sum& live, const Shelf::Sum& served, Stats* stats) {
  const auto add = [](Stat& stat, uint64_t current, uint64_t allocated) {
    stat.add(current);
    stat.allocated += allocated - current;
    stat.freed += allocated - current;
  };
  add(stats->allocation, live.blocks, served.blocks);
  add(stats->allocated_bytes, live.bytes, served.bytes);
  add(stats->active_bytes, live.bytes, served.bytes);
  add(stats->requested_bytes, live.requested_bytes, served.requested_bytes);
}

Stats SharedPool::stats() {
  const std::lock_guard guard(lock_);
  Stats stats = pool_.stats();
  stats.shelf_hits -= lends_;
  for (Shelf& shelf : shelves_) {
    const Shelf::Counts counts = shelf.counts();
    stats.shelf_hits += counts.served.blocks;
    count(counts.live, counts.served, &stats);
  }
  count({},
        {.blocks = 0 - returned_.blocks,
         .bytes = 0 - returned_.bytes,
         .requested_bytes = 0 - returned_.requested_bytes},
        &stats);
  return stats;
}

OomFacts SharedPool::last_oom() {
  const std::lock_guard guard(lock_);
  return pool_.last_oom();
}

void SharedPool::reset_peaks() {
  const std::lock_guard guard(lock_);
  (void)collect();
  pool_.reset_peaks();
}

void SharedPool::reset_sums() {
  const std::lock_guard guard(lock_);
  (void)collect();
  for (Shelf& shelf : shelves_) shelf.reset_sums();
  lends_ = 0;
  returned_ = {};
  pool_.reset_sums();
}

void SharedPool::report_all(Observer& observer) {
  const std::lock_guard guard(lock_);
  (void)collect();
  pool_.report_all(observer);
}

void SharedPool::report_parts(Address address, Observer& observer) {
  const auto [base, bytes] = pool_.ranges()[1];  // no other block has several
  if (address - base >= bytes) return;
  const std::lock_guard guard(lock_);
  const uint32_t block = blocks_.find(address);
  if (block != AddressMap::kNone) pool_.report_parts(pool_.id_of(block), observer);
}

bool SharedPool::validate(std::string* why) {
  const std::lock_guard guard(lock_);
  return pool_.validate(why);
}

}  // namespace vram::pool
