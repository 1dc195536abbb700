#include "pool/shared_pool.hpp"

#include "pool/sizes.hpp"

#include <algorithm>
#include <utility>

namespace vram::pool {
namespace {

// What is lent to a thread at once: at least so much, and of what it has this part.
constexpr uint64_t kLeastLease = 2 * kMiB;
constexpr uint64_t kLeasePart = 4;

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
  pool_.on_shortage([](void* self) { return static_cast<SharedPool*>(self)->collect(); }, this);
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

void SharedPool::collect(Shelf& shelf) {
  Lease rest;
  shelf.clear([&](const Lease& lease, StreamHandle stream, const Shelf::Part& part) {
    if (part.address == lease.address) rest = lease;
    if (!part.is_live) return pool_.give_back(&rest, part.size_bytes, stream);
    const BlockId block = pool_.keep(&rest, part.size_bytes, part.requested_bytes, stream);
    blocks_.set(part.address, block.index);
    returned_.add(part.size_bytes, part.requested_bytes);
  });
}

Address SharedPool::allocate(uint64_t bytes, StreamHandle stream) {
  Shelf& shelf = shelves_[own_shelf()];
  if (shelf.lent_bytes() >= bytes && shelf.lent_bytes() > 0) {
    if (const Address address = shelf.allocate(bytes, stream); address != 0) return address;
  }
  const Address address = request(bytes, stream, shelf);
  if (address != 0 || reclaim_ == nullptr || !reclaim_(owner_, bytes)) return address;
  withdraw_oom();
  return request(bytes, stream, shelf);
}

Address SharedPool::request(uint64_t bytes, StreamHandle stream, Shelf& shelf) {
  lock_pool(shelf);
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (shelf.is_hot() && lend(bytes, stream, shelf)) {
    // Another thread that has this shelf, too, may have been quicker.
    if (const Address address = shelf.allocate(bytes, stream); address != 0) return address;
  }
  const Allocation got = pool_.allocate(bytes, stream);
  if (got.address != 0) blocks_.set(got.address, got.block.index);
  return got.address;
}

// The more it has the more it gets, so that it need not ask often.
bool SharedPool::lend(uint64_t bytes, StreamHandle stream, Shelf& shelf) {
  const uint64_t more = std::max(kLeastLease, shelf.lent_bytes() / kLeasePart);
  Lease lease;
  if (!pool_.lend(bytes, std::max(bytes, more), stream, &lease)) return false;
  shelf.add(lease, stream);
  ++lends_;
  return true;
}

// The request is tried again: it has not failed yet.
void SharedPool::withdraw_oom() {
  const std::lock_guard guard(lock_);
  pool_.withdraw_oom();
}

bool SharedPool::free(Address address) {
  Shelf& shelf = shelves_[own_shelf()];
  if (shelf.lent_bytes() > 0 && shelf.free(address)) return true;
  lock_pool(shelf);
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
    if (shelf.lent_bytes() > 0 && shelf.holds(address)) collect(shelf);
  }
  const uint32_t block = blocks_.find(address);
  if (block == AddressMap::kNone) return false;
  pool_.record_stream(pool_.id_of(block), stream);
  return true;
}

void SharedPool::forget(StreamHandle stream) {
  const std::lock_guard guard(lock_);
  if (captures_ > 0) return forgotten_.push_back(stream);
  (void)collect();
  pool_.forget(stream);
}

BlockInfo SharedPool::block_at(Address address) {
  const std::lock_guard guard(lock_);
  (void)collect();  // what lies on a shelf does not live
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
  (void)collect();
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
  if (captures_ > 0 || forgotten_.empty()) return;
  (void)collect();
  for (const StreamHandle stream : std::exchange(forgotten_, {})) pool_.forget(stream);
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

void SharedPool::tell_all(Observer& observer) {
  const std::lock_guard guard(lock_);
  (void)collect();
  pool_.tell_all(observer);
}

void SharedPool::tell_parts(Address address, Observer& observer) {
  const auto [base, bytes] = pool_.ranges()[1];  // no other block has several
  if (address - base >= bytes) return;
  const std::lock_guard guard(lock_);
  const uint32_t block = blocks_.find(address);
  if (block != AddressMap::kNone) pool_.tell_parts(pool_.id_of(block), observer);
}

bool SharedPool::validate(std::string* why) {
  const std::lock_guard guard(lock_);
  return pool_.validate(why);
}

}  // namespace vram::pool
