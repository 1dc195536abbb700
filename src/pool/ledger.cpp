#include "pool/ledger.hpp"

namespace vram::pool {

// Where the address is, or the gap at which looking for it ends. With linear probing, and no more
// than half of it full.
size_t Ledger::place_of(Address address) const {
  size_t at = home(address);
  while (entries_[at].address != 0 && entries_[at].address != address) {
    at = (at + 1) & (entries_.size() - 1);
  }
  return at;
}

void Ledger::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  --shift_;
  for (const Entry& entry : old) {
    if (entry.address != 0) entries_[place_of(entry.address)] = entry;
  }
}

void Ledger::add(Address address, BlockId block) {
  if (++used_ * 2 > entries_.size()) grow();
  entries_[place_of(address)] = {address, block};
}

bool Ledger::find(Address address, BlockId* block) const {
  const Entry& entry = entries_[place_of(address)];
  if (address == 0 || entry.address == 0) return false;
  *block = entry.block;
  return true;
}

bool Ledger::take(Address address, BlockId* block) {
  const size_t at = place_of(address);
  if (address == 0 || entries_[at].address == 0) return false;
  *block = entries_[at].block;
  close_gap(at);
  --used_;
  return true;
}

// Later entries of the same run move up, so that no search stops at the gap too early.
void Ledger::close_gap(size_t gap) {
  const size_t mask = entries_.size() - 1;
  for (size_t at = (gap + 1) & mask; entries_[at].address != 0; at = (at + 1) & mask) {
    if (((at - home(entries_[at].address)) & mask) < ((at - gap) & mask)) continue;
    entries_[gap] = entries_[at];
    gap = at;
  }
  entries_[gap].address = 0;
}

}  // namespace vram::pool
