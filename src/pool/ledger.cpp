#include "pool/ledger.hpp"

namespace vram::pool {

// Where the address is, or the gap at which looking for it ends.
size_t Ledger::Part::place_of(Address address, uint64_t hash) const {
  size_t at = home(hash);
  while (entries[at].address != 0 && entries[at].address != address) {
    at = (at + 1) & (entries.size() - 1);
  }
  return at;
}

void Ledger::Part::grow() {
  std::vector<Entry> old(entries.size() * 2);
  old.swap(entries);
  --shift;
  used = 0;
  for (const Entry& entry : old) {
    if (entry.address != 0) insert(entry, hash_of(entry.address));
  }
}

void Ledger::Part::insert(const Entry& entry, uint64_t hash) {
  if (++used * 2 > entries.size()) {
    grow();
    ++used;
  }
  entries[place_of(entry.address, hash)] = entry;
}

// Later entries of the same run move up, so that no search stops at the gap too early.
void Ledger::Part::close_gap(size_t gap) {
  const size_t mask = entries.size() - 1;
  for (size_t at = (gap + 1) & mask; entries[at].address != 0; at = (at + 1) & mask) {
    const size_t wanted = home(hash_of(entries[at].address));
    if (((at - wanted) & mask) < ((at - gap) & mask)) continue;
    entries[gap] = entries[at];
    gap = at;
  }
  entries[gap].address = 0;
}

void Ledger::add(const Entry& entry) {
  const uint64_t hash = hash_of(entry.address);
  Part& part = part_of(hash);
  const std::lock_guard guard(part.lock);
  part.insert(entry, hash);
}

bool Ledger::take(Address address, Entry* entry) {
  const uint64_t hash = hash_of(address);
  Part& part = part_of(hash);
  const std::lock_guard guard(part.lock);
  const size_t at = part.place_of(address, hash);
  if (address == 0 || part.entries[at].address == 0) return false;
  *entry = part.entries[at];
  part.close_gap(at);
  --part.used;
  return true;
}

bool Ledger::share(Address address, Entry* entry) {
  const uint64_t hash = hash_of(address);
  Part& part = part_of(hash);
  const std::lock_guard guard(part.lock);
  const size_t at = part.place_of(address, hash);
  if (address == 0 || part.entries[at].address == 0) return false;
  part.entries[at].is_shared = true;
  *entry = part.entries[at];
  return true;
}

}  // namespace vram::pool
