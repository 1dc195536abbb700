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

Shelf& SharedPool::own_shelf() { return shelves_[number_of_this_thread() % kShelves]; }

void SharedPool::lock_pool(Shelf& shelf) {
  if (lock_.try_lock()) return shelf.met_nobody();
  shelf.met_others();
  lock_.lock();
}

// What lies on the shelves becomes the pool's again, which is locked.
void SharedPool::collect() {
  for (Shelf& shelf : shelves_) {
    if (shelf.is_empty()) continue;
    for (const Entry& entry : shelf.clear()) pool_.free(entry.block);
  }
  shelf_bytes_.store(pool_.stats().reserved_bytes.current / kShelfPart, std::memory_order_relaxed);
}

Address SharedPool::allocate(uint64_t bytes, StreamHandle stream) {
  Shelf& shelf = own_shelf();
  Entry entry;
  if (shelf.is_hot() && bytes <= kLargestBytes && shelf.take(round_size(bytes), stream, &entry)) {
    ledger_.add(entry);
    return entry.address;
  }
  const Address address = request(bytes, stream, shelf);
  if (address != 0 || reclaim_ == nullptr || !reclaim_(owner_, bytes)) return address;
  withdraw_oom();
  return request(bytes, stream, shelf);
}

Address SharedPool::request(uint64_t bytes, StreamHandle stream, Shelf& shelf) {
  lock_pool(shelf);
  const Allocation got = pool_.allocate(bytes, stream);
  lock_.unlock();
  if (got.address != 0) ledger_.add({got.address, got.block, round_size(bytes), stream});
  return got.address;
}

// The request is tried again: it has not failed yet.
void SharedPool::withdraw_oom() {
  const std::lock_guard guard(lock_);
  pool_.withdraw_oom();
}

bool SharedPool::free(Address address) {
  Entry entry;
  if (!ledger_.take(address, &entry)) return false;
  Shelf& shelf = own_shelf();
  const uint64_t most_bytes = shelf_bytes_.load(std::memory_order_relaxed);
  if (shelf.is_hot() && !entry.is_shared && shelf.put(entry, most_bytes)) return true;
  lock_pool(shelf);
  pool_.free(entry.block);
  lock_.unlock();
  return true;
}

bool SharedPool::record_stream(Address address, StreamHandle stream) {
  Entry entry;
  if (!ledger_.share(address, &entry)) return false;
  const std::lock_guard guard(lock_);
  pool_.record_stream(entry.block, stream);
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
  for (const Shelf& shelf : shelves_) {
    stats.allocation.drop(shelf.count());
    stats.allocated_bytes.drop(shelf.bytes());
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
  pool_.reset_sums();
}

bool SharedPool::validate(std::string* why) {
  const std::lock_guard guard(lock_);
  return pool_.validate(why);
}

}  // namespace vram::pool
