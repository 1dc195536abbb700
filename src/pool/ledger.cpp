#include "pool/ledger.hpp"

namespace vram::pool {
namespace {

constexpr uint32_t kFirstLog2 = 10;

Address address_of(const Entry* entry) { return entry->address.load(std::memory_order_relaxed); }

}  // namespace

Ledger::Ledger() {
  tables_.push_back(std::make_unique<Table>(kFirstLog2));
  table_.store(tables_.back().get(), std::memory_order_relaxed);
}

void Ledger::Table::insert(Entry* entry) {
  size_t at = home(address_of(entry));
  while (slots[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & mask;
  slots[at].store(entry, std::memory_order_release);
}

// Later entries of the same run move up, so that no search stops at the gap too early.
void Ledger::Table::close_gap(size_t gap) {
  for (size_t at = (gap + 1) & mask;; at = (at + 1) & mask) {
    Entry* entry = slots[at].load(std::memory_order_relaxed);
    if (entry == nullptr) break;
    if (((at - home(address_of(entry))) & mask) < ((at - gap) & mask)) continue;
    slots[gap].store(entry, std::memory_order_release);
    gap = at;
  }
  slots[gap].store(nullptr, std::memory_order_release);
}

void Ledger::grow() {
  const Table& old = *tables_.back();
  auto larger = std::make_unique<Table>(64 - old.shift + 1);
  for (size_t at = 0; at <= old.mask; ++at) {
    Entry* entry = old.slots[at].load(std::memory_order_relaxed);
    if (entry != nullptr) larger->insert(entry);
  }
  table_.store(larger.get(), std::memory_order_release);
  tables_.push_back(std::move(larger));
}

void Ledger::add(const Allocation& block, uint64_t size_bytes, StreamHandle stream,
                 uint32_t shelf) {
  if (++used_ * 4 > tables_.back()->mask) grow();
  Entry* entry = spare_;
  if (entry == nullptr) entry = &entries_.emplace_back();
  spare_ = entry->next;
  entry->address.store(block.address, std::memory_order_relaxed);
  entry->block = block.block;
  entry->size_bytes = size_bytes;
  entry->stream = stream;
  entry->shelf = shelf;
  entry->is_shared.store(false, std::memory_order_relaxed);
  entry->state.store(EntryState::kLive, std::memory_order_relaxed);
  tables_.back()->insert(entry);
}

void Ledger::remove(Entry* entry) {
  Table& table = *tables_.back();
  size_t at = table.home(address_of(entry));
  while (table.slots[at].load(std::memory_order_relaxed) != entry) at = (at + 1) & table.mask;
  table.close_gap(at);
  entry->state.store(EntryState::kGone, std::memory_order_relaxed);
  entry->next = spare_;
  spare_ = entry;
  --used_;
}

// No entry is ever of address 0, whose slots are as good as any.
Entry* Ledger::find(Address address) const {
  const Table& table = *table_.load(std::memory_order_acquire);
  for (size_t at = table.home(address);; at = (at + 1) & table.mask) {
    Entry* entry = table.slots[at].load(std::memory_order_acquire);
    if (entry == nullptr || address_of(entry) == address) return entry;
  }
}

}  // namespace vram::pool
