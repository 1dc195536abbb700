#include "pool/shared_pool.hpp"

#include "pool/sizes.hpp"

#include <utility>

namespace vram::pool {
namespace {

// Threads take shelves in turn. In the library's static block of thread-local storage, which is
// found without a call.
__attribute__((tls_model("initial-exec"))) thread_local uint32_t own_number = 0;

uint32_t number_of_this_thread() {
  static std::atomic<uint32_t> last{0};
  if (own_number == 0) own_number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return own_number;
}

}  // namespace

SharedPool::SharedPool(Device& device, const Options& options) : pool_(device, options) {
  pool_.on_shortage([](void* self) { static_cast<SharedPool*>(self)->collect(); }, this);
}

void SharedPool::on_oom(Reclaim reclaim, void* owner) {
  reclaim_ = reclaim;
  owner_ = owner;
}

uint32_t SharedPool::own_shelf() { return number_of_this_thread() % kShelves; }

void SharedPool::lock_pool(Shelf& shelf) {
  if (lock_.try_lock()) return shelf.met_nobody();
  shelf.met_others();
  lock_.lock();
}

// What lies on the shelves becomes the pool's again, which is locked.
void SharedPool::collect() {
  for (Shelf& shelf : shelves_) {
    if (shelf.is_empty()) continue;
    for (Entry* entry = shelf.clear(); entry != nullptr;)
      release(std::exchange(entry, entry->next));
  }
  shelf_bytes_.store(pool_.stats().reserved_bytes.current / kShelfPart, std::memory_order_relaxed);
}

// Under the lock.
void SharedPool::release(Entry* entry) {
  pool_.free(entry->block);
  ledger_.remove(entry);
}

Address SharedPool::allocate(uint64_t bytes, StreamHandle stream) {
  const uint32_t number = own_shelf();
  Shelf& shelf = shelves_[number];
  if (!shelf.is_empty() && bytes <= kLargestBytes) {
    if (const Entry* entry = shelf.take(round_size(bytes), stream); entry != nullptr) {
      return entry->address.load(std::memory_order_relaxed);
    }
  }
  const Address address = request(bytes, stream, number);
  if (address != 0 || reclaim_ == nullptr || !reclaim_(owner_, bytes)) return address;
  withdraw_oom();
  return request(bytes, stream, number);
}

Address SharedPool::request(uint64_t bytes, StreamHandle stream, uint32_t shelf) {
  lock_pool(shelves_[shelf]);
  const std::lock_guard guard(lock_, std::adopt_lock);
  const Allocation got = pool_.allocate(bytes, stream);
  if (got.address != 0) ledger_.add(got, round_size(bytes), stream, shelf);
  return got.address;
}

// The request is tried again: it has not failed yet.
void SharedPool::withdraw_oom() {
  const std::lock_guard guard(lock_);
  pool_.withdraw_oom();
}

bool SharedPool::shelve(Address address) {
  Entry* entry = ledger_.find(address);
  if (entry == nullptr || entry->is_shared.load(std::memory_order_relaxed)) return false;
  return shelves_[entry->shelf].put(entry, shelf_bytes_.load(std::memory_order_relaxed));
}

bool SharedPool::free(Address address) {
  Shelf& shelf = shelves_[own_shelf()];
  if (shelf.is_hot() && shelve(address)) return true;
  lock_pool(shelf);
  const std::lock_guard guard(lock_, std::adopt_lock);
  Entry* entry = ledger_.find(address);
  if (entry == nullptr || !entry->is_live()) return false;
  release(entry);
  return true;
}

bool SharedPool::record_stream(Address address, StreamHandle stream) {
  const std::lock_guard guard(lock_);
  Entry* entry = ledger_.find(address);
  if (entry == nullptr || !entry->is_live()) return false;
  entry->is_shared.store(true, std::memory_order_relaxed);
  pool_.record_stream(entry->block, stream);
  return true;
}

void SharedPool::forget(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  collect();
  pool_.forget(stream);
}

BlockInfo SharedPool::block_at(Address address) {
  const std::lock_guard guard(lock_);
  collect();  // what lies on a shelf does not live
  BlockInfo info;
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
  collect();
  (void)pool_.wait();
  return pool_.trim(bytes);
}

void SharedPool::begin_capture() {
  const std::lock_guard guard(lock_);
  pool_.allow_waiting(++captures_ == 0);
}

void SharedPool::end_capture() {
  const std::lock_guard guard(lock_);
  if (captures_ > 0) --captures_;
  pool_.allow_waiting(captures_ == 0);
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

Stats SharedPool::stats() {
  const std::lock_guard guard(lock_);
  Stats stats = pool_.stats();
  for (Shelf& shelf : shelves_) {
    const Shelf::Counts counts = shelf.counts();
    stats.shelf_hits += counts.taken_blocks;
    stats.allocation.allocated += counts.taken_blocks;
    stats.allocation.freed += counts.taken_blocks;
    stats.allocated_bytes.allocated += counts.taken_bytes;
    stats.allocated_bytes.freed += counts.taken_bytes;
    stats.allocation.drop(counts.blocks);
    stats.allocated_bytes.drop(counts.bytes);
  }
  return stats;
}

OomFacts SharedPool::last_oom() {
  const std::lock_guard guard(lock_);
  return pool_.last_oom();
}

void SharedPool::reset_peaks() {
  const std::lock_guard guard(lock_);
  collect();
  pool_.reset_peaks();
}

void SharedPool::reset_sums() {
  const std::lock_guard guard(lock_);
  collect();
  for (Shelf& shelf : shelves_) shelf.reset_taken();
  pool_.reset_sums();
}

bool SharedPool::validate(std::string* why) {
  const std::lock_guard guard(lock_);
  return pool_.validate(why);
}

}  // namespace vram::pool
