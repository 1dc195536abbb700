#include "pool/stitches.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vram::pool {

Status Stitches::reserve(uint64_t bytes) {
  const Status status = memory_.reserve(bytes, &base_);
  if (status != Status::kOk) return status;
  reserved_bytes_ = bytes;
  addresses_.emplace(base_, bytes);
  return status;
}

Stitches::~Stitches() {
  for (const auto& [address, bytes] : orphans_) (void)memory_.unmap(address, bytes);
  for (const Stitch& stitch : stitches_) {
    if (stitch.address != 0) (void)memory_.unmap(stitch.address, stitch.bytes);
  }
  if (reserved_bytes_ != 0) (void)memory_.unreserve(base_, reserved_bytes_);
}

Address Stitches::take_addresses(uint64_t bytes) {
  for (auto at = addresses_.begin(); at != addresses_.end(); ++at) {
    if (at->second < bytes) continue;
    const auto [address, free_bytes] = *at;
    addresses_.erase(at);
    if (free_bytes > bytes) addresses_.emplace(address + bytes, free_bytes - bytes);
    return address;
  }
  return 0;
}

void Stitches::give_back_addresses(Address address, uint64_t bytes) {
  auto next = addresses_.lower_bound(address);
  if (next != addresses_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = addresses_.erase(next);
  }
  if (next != addresses_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  addresses_.emplace(address, bytes);
}

Status Stitches::map_all(const Stitch& stitch, uint64_t* mapped_bytes) {
  for (const HandleId id : stitch.handles) {
    const Stock::Piece& piece = stock_[id];
    const Status status = memory_.map(stitch.address + *mapped_bytes, piece.bytes, piece.handle);
    if (status != Status::kOk) return status;
    *mapped_bytes += piece.bytes;
  }
  return memory_.set_access(stitch.address, stitch.bytes, device_.ordinal());
}

bool Stitches::unmap(Address address, uint64_t bytes) {
  if (bytes == 0 || memory_.unmap(address, bytes) == Status::kOk) return true;
  orphans_.emplace_back(address, bytes);
  return false;
}

Status Stitches::add(const std::vector<HandleId>& handles, StitchId* id) {
  Stitch stitch;
  stitch.handles = handles;
  for (const HandleId handle : handles) stitch.bytes += stock_[handle].bytes;
  stitch.address = take_addresses(stitch.bytes);
  if (stitch.address == 0) {
    drop_idle([&] { return (stitch.address = take_addresses(stitch.bytes)) != 0; });
  }
  if (stitch.address == 0) return Status::kOutOfMemory;
  uint64_t mapped = 0;
  if (const Status status = map_all(stitch, &mapped); status != Status::kOk) {
    const bool is_unmapped = unmap(stitch.address, mapped);
    if (is_unmapped) give_back_addresses(stitch.address, stitch.bytes);
    if (!is_unmapped) lost_bytes_ += stitch.bytes;
    return status;
  }
  mapped_bytes_ += stitch.bytes;
  if (spare_.empty()) {
    stitches_.emplace_back();
    spare_.push_back(limit() - 1);
  }
  *id = spare_.back();
  spare_.pop_back();
  stitches_[*id] = std::move(stitch);
  return Status::kOk;
}

void Stitches::use(StitchId id, std::vector<NodeId> parts, uint64_t offset_bytes,
                   std::vector<std::pair<Address, uint64_t>> shown) {
  Stitch& stitch = stitches_[id];
  stitch.parts = std::move(parts);
  stitch.shown = std::move(shown);
  stitch.offset_bytes = offset_bytes;
  stitch.last_use = ++uses_;
}

std::vector<NodeId> Stitches::unuse(StitchId id, StreamHandle stream, Stamp stamp) {
  Stitch& stitch = stitches_[id];
  stitch.last_use = ++uses_;
  const auto known =
      std::ranges::find(stitch.pending, stream, &decltype(stitch.pending)::value_type::first);
  if (stamp != 0 && known != stitch.pending.end()) known->second = stamp;
  if (stamp != 0 && known == stitch.pending.end()) stitch.pending.emplace_back(stream, stamp);
  return std::exchange(stitch.parts, {});
}

bool Stitches::is_done(Stitch& stitch) {
  std::erase_if(stitch.pending,
                [this](const auto& work) { return device_.is_done(work.first, work.second); });
  return stitch.pending.empty();
}

void Stitches::rename(StreamHandle stream, StreamHandle alias) {
  for (Stitch& stitch : stitches_) {
    for (auto& work : stitch.pending) {
      if (work.first == stream) work.first = alias;
    }
  }
}

bool Stitches::drop(StitchId id) {
  Stitch& stitch = stitches_[id];
  if (!stitch.is_idle() || !is_done(stitch)) return false;
  if (memory_.unmap(stitch.address, stitch.bytes) != Status::kOk) return false;
  forget(id, true);
  return true;
}

void Stitches::forget(StitchId id, bool is_unmapped) {
  Stitch& stitch = stitches_[id];
  mapped_bytes_ -= stitch.bytes;
  if (is_unmapped) give_back_addresses(stitch.address, stitch.bytes);
  if (!is_unmapped) lost_bytes_ += stitch.bytes;
  stitch = Stitch{};
  spare_.push_back(id);
}

// kNotReady: nothing was changed. Another failure: nothing is mapped there.
Status Stitches::exchange(Stitch& stitch, const Patch& patch) {
  Address at = stitch.address;
  for (size_t i = 0; i < patch.index; ++i) at += stock_[stitch.handles[i]].bytes;
  const Stock::Piece& piece = stock_[patch.handle];
  if (memory_.unmap(at, piece.bytes) != Status::kOk) return Status::kNotReady;
  stitch.handles[patch.index] = patch.handle;
  Status status = memory_.map(at, piece.bytes, piece.handle);
  if (status != Status::kOk) return status;
  status = memory_.set_access(at, piece.bytes, device_.ordinal());
  if (status != Status::kOk) (void)unmap(at, piece.bytes);
  return status;
}

Status Stitches::patch(StitchId id, const std::vector<Patch>& patches) {
  Stitch& stitch = stitches_[id];
  if (!is_done(stitch)) return Status::kNotReady;
  stitch.shown.clear();
  for (const Patch& patch : patches) {
    const Status status = exchange(stitch, patch);
    if (status == Status::kOk) continue;
    if (status != Status::kNotReady) drop_around(id, patch.index);
    return status;
  }
  return Status::kOk;
}

// All but one handle, which is not mapped any more as far as the driver let it go.
void Stitches::drop_around(StitchId id, size_t index) {
  const Stitch& stitch = stitches_[id];
  uint64_t before = 0;
  for (size_t i = 0; i < index; ++i) before += stock_[stitch.handles[i]].bytes;
  const uint64_t after = before + stock_[stitch.handles[index]].bytes;
  const size_t orphans = orphans_.size();
  (void)unmap(stitch.address, before);
  (void)unmap(stitch.address + after, stitch.bytes - after);
  const bool has_orphan_inside = orphans > 0 && orphans_.back().first == stitch.address + before;
  forget(id, orphans == orphans_.size() && !has_orphan_inside);
}

StitchId Stitches::at(Address address) const {
  for (StitchId id = 0; id < limit(); ++id) {
    const Stitch& stitch = stitches_[id];
    if (stitch.address <= address && address - stitch.address < stitch.bytes) return id;
  }
  return kNoStitch;
}

template <typename IsEnough>
void Stitches::drop_idle(IsEnough is_enough) {
  std::vector<StitchId> idle;
  for (StitchId id = 0; id < limit(); ++id) {
    if (stitches_[id].address != 0 && stitches_[id].is_idle()) idle.push_back(id);
  }
  std::ranges::sort(idle, {}, [this](StitchId id) { return stitches_[id].last_use; });
  for (const StitchId id : idle) {
    if (drop(id) && is_enough()) return;
  }
}

void Stitches::drop_until(uint64_t bytes) {
  if (mapped_bytes_ > bytes) drop_idle([&] { return mapped_bytes_ <= bytes; });
}

bool Stitches::drop_all_of(HandleId handle) {
  bool all = true;
  for (StitchId id = 0; id < limit(); ++id) {
    const Stitch& stitch = stitches_[id];
    if (stitch.address == 0 || std::ranges::count(stitch.handles, handle) == 0) continue;
    all = drop(id) && all;
  }
  return all;
}

std::string Stitches::validate() const {
  uint64_t mapped = 0;
  for (const Stitch& stitch : stitches_) {
    if (stitch.address == 0) continue;
    uint64_t bytes = 0;
    for (const HandleId id : stitch.handles) bytes += stock_[id].bytes;
    if (bytes != stitch.bytes) return "a stitch is not as long as its handles";
    mapped += bytes;
  }
  if (mapped != mapped_bytes_) return "the stitches' bytes are miscounted";
  uint64_t unused = 0;
  for (const auto& [address, bytes] : addresses_) unused += bytes;
  if (mapped + unused + lost_bytes_ != reserved_bytes_) return "addresses of stitches got lost";
  return {};
}

}  // namespace vram::pool
