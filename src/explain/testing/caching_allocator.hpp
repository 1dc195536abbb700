// CachingAllocator: PyTorch's caching allocator in miniature, for tests and benchmarks. It searches
// (best fit by size, then address, within stream and pool), where the replay under test only
// follows addresses; it writes the events PyTorch would record, keeps PyTorch's counters, and can
// be asked for the end state. Memory is only numbers.
#pragma once

#include "base/result.hpp"
#include "explain/history/heap.hpp"
#include "explain/report.hpp"
#include "trace/trace.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace vram::explain::testing {

class CachingAllocator {
 public:
  using Block = uint64_t;  // its address

  explicit CachingAllocator(const AllocatorRules& rules, bool expandable = false)
      : rules_(rules), expandable_(expandable) {}

  // Events from here on go into `trace`; before it, what happens is not recorded.
  void record_into(trace::Trace* trace) { trace_ = trace; }

  Block allocate(uint64_t bytes, trace::StreamId stream = 0) {
    const uint64_t rounded = rules_.round(bytes);
    const Domain domain{stream, rounded <= kSmallRequestBytes};
    auto fit = find_fit(domain, rounded);
    if (fit == free_.end()) fit = grow(domain, rounded);
    VRAM_CHECK(fit != free_.end());
    const uint64_t address = std::get<2>(*fit);
    Node& node = nodes_.at(address);
    free_.erase(fit);
    split(address, node, rounded);
    node.state = trace::BlockState::kAllocated;
    node.requested_bytes = bytes;
    totals_.requested_bytes += bytes;
    totals_.allocated_bytes += node.size_bytes;
    totals_.active_bytes += node.size_bytes;
    record(trace::EventKind::kAlloc, address, bytes, stream);
    return address;
  }
  // `awaited`: another stream still uses it (record_stream); complete() ends that.
  void free(Block block, bool awaited = false) {
    Node& node = nodes_.at(block);
    node.state = trace::BlockState::kPendingFree;
    totals_.allocated_bytes -= node.size_bytes;
    record(trace::EventKind::kFreeRequested, block, node.requested_bytes, node.domain.stream);
    if (!awaited) complete(block);
  }
  void complete(Block block) {
    Node& node = nodes_.at(block);
    node.state = trace::BlockState::kInactive;
    totals_.active_bytes -= node.size_bytes;
    totals_.requested_bytes -= node.requested_bytes;
    record(trace::EventKind::kFreeCompleted, block, node.requested_bytes, node.domain.stream);
    merge(nodes_.find(block));
  }
  void empty_cache() {
    const std::set<FreeKey> free = free_;
    for (const FreeKey& key : free) release(std::get<2>(key));
  }

  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] uint64_t block_bytes(Block block) const { return nodes_.at(block).size_bytes; }

  // The segments and blocks, as a snapshot holds them.
  void write_end_state(trace::DeviceTrace& device) const {
    device.has_end_state = true;
    for (const auto& [address, node] : nodes_) {
      if (node.begins_segment) {
        device.segments.push_back({.address = address,
                                   .first_block = device.blocks.size(),
                                   .stream = node.domain.stream,
                                   .is_small = node.domain.is_small,
                                   .is_expandable = expandable_});
      }
      trace::Segment& segment = device.segments.back();
      const bool active = node.state != trace::BlockState::kInactive;
      segment.size_bytes += node.size_bytes;
      ++segment.block_count;
      if (active) segment.claimed_active_bytes += node.size_bytes;
      if (active) segment.claimed_requested_bytes += node.requested_bytes;
      if (node.state == trace::BlockState::kAllocated) {
        segment.claimed_allocated_bytes += node.size_bytes;
      }
      device.blocks.push_back({.address = address,
                               .size_bytes = node.size_bytes,
                               .requested_bytes = node.requested_bytes,
                               .state = node.state});
    }
  }

 private:
  struct Domain {
    trace::StreamId stream = 0;
    bool is_small = false;
    friend auto operator<=>(const Domain&, const Domain&) = default;
  };
  struct Node {
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    Domain domain;
    trace::BlockState state = trace::BlockState::kInactive;
    bool begins_segment = false;
  };
  using FreeKey = std::tuple<Domain, uint64_t, uint64_t>;  // domain, size, address
  using Nodes = std::map<uint64_t, Node>;

  std::set<FreeKey>::iterator find_fit(const Domain& domain, uint64_t rounded) {
    const auto it = free_.lower_bound({domain, rounded, 0});
    if (it == free_.end() || std::get<0>(*it) != domain) return free_.end();
    const bool is_oversize = std::get<1>(*it) >= rules_.max_split_bytes();
    return rounded < rules_.max_split_bytes() && is_oversize ? free_.end() : it;
  }

  // A new segment serves the request that asked for it, even where the split limit would keep
  // others away.
  std::set<FreeKey>::iterator grow(const Domain& domain, uint64_t rounded) {
    if (expandable_) {
      map_pages(domain, rounded);
      return find_fit(domain, rounded);
    }
    constexpr uint64_t kPage = kSmallSegmentBytes;
    uint64_t size = (rounded + kPage - 1) / kPage * kPage;
    if (domain.is_small) size = kPage;
    if (!domain.is_small && rounded < 10 * kMiB) size = 20 * kMiB;
    const uint64_t address = next_segment_;
    next_segment_ += size;  // adjacent on purpose: separate segments must not merge
    add_segment(trace::EventKind::kSegmentAlloc, address, size, domain, true);
    return free_.find({domain, size, address});
  }

  // One reservation a domain; pages are mapped at its end, or where they were unmapped.
  void map_pages(const Domain& domain, uint64_t rounded) {
    const uint64_t granule = rules_.granule_bytes(domain.is_small);
    auto [it, is_new] = reservations_.try_emplace(domain, next_segment_);
    if (is_new) next_segment_ += uint64_t{1} << 40;
    const uint64_t size = (rounded + granule - 1) / granule * granule;
    uint64_t address = it->second;
    for (auto node = nodes_.lower_bound(it->second);
         node != nodes_.end() && node->first < it->second + (uint64_t{1} << 40) &&
         node->first < address + size;
         ++node) {
      address = node->first + node->second.size_bytes;
    }
    const auto before = nodes_.lower_bound(address);
    const bool touches = before != nodes_.begin() && address > it->second &&
                         std::prev(before)->first + std::prev(before)->second.size_bytes == address;
    add_segment(trace::EventKind::kSegmentMap, address, size, domain, !touches);
  }

  void add_segment(trace::EventKind kind, uint64_t address, uint64_t size, const Domain& domain,
                   bool begins) {
    totals_.reserved_bytes += size;
    record(kind, address, size, domain.stream);
    const auto node = nodes_.emplace(address, Node{size, 0, domain}).first;
    node->second.begins_segment = begins;
    const auto next = nodes_.find(address + size);
    if (expandable_ && next != nodes_.end() && next->second.domain == domain) {
      next->second.begins_segment = false;
    }
    merge(node);
  }

  void split(uint64_t address, Node& node, uint64_t rounded) {
    const uint64_t rest = node.size_bytes - rounded;
    if (!rules_.splits(rounded, rest, node.domain.is_small || expandable_)) return;
    nodes_.emplace(address + rounded, Node{rest, 0, node.domain});
    free_.insert({node.domain, rest, address + rounded});
    node.size_bytes = rounded;
  }

  void merge(Nodes::iterator node) {
    const auto next = std::next(node);
    if (next != nodes_.end()) absorb(node, next);
    if (node != nodes_.begin() && absorb(std::prev(node), node)) node = last_merged_;
    free_.insert({node->second.domain, node->second.size_bytes, node->first});
  }
  bool absorb(Nodes::iterator low, Nodes::iterator high) {
    if (low->first + low->second.size_bytes != high->first || high->second.begins_segment ||
        low->second.state != trace::BlockState::kInactive ||
        high->second.state != trace::BlockState::kInactive) {
      return false;
    }
    free_.erase({low->second.domain, low->second.size_bytes, low->first});
    free_.erase({high->second.domain, high->second.size_bytes, high->first});
    low->second.size_bytes += high->second.size_bytes;
    nodes_.erase(high);
    last_merged_ = low;
    return true;
  }

  void release(uint64_t address) {
    const auto node = nodes_.find(address);
    if (expandable_) {
      unmap_granules(node);
      return;
    }
    const auto next = std::next(node);
    const bool is_whole =
        node->second.begins_segment && (next == nodes_.end() || next->second.begins_segment);
    if (!is_whole) return;
    remove_segment(trace::EventKind::kSegmentFree, node, address, node->second.size_bytes);
  }

  void unmap_granules(Nodes::iterator node) {
    const Domain domain = node->second.domain;
    const uint64_t base = reservations_.at(domain);
    const uint64_t granule = rules_.granule_bytes(domain.is_small);
    const uint64_t begin = (node->first - base + granule - 1) / granule * granule + base;
    const uint64_t end = (node->first + node->second.size_bytes - base) / granule * granule + base;
    if (end <= begin) return;
    remove_segment(trace::EventKind::kSegmentUnmap, node, begin, end - begin);
  }

  void remove_segment(trace::EventKind kind, Nodes::iterator node, uint64_t address,
                      uint64_t size) {
    const auto [start, whole] = *node;
    const uint64_t end = start + whole.size_bytes;
    free_.erase({whole.domain, whole.size_bytes, start});
    nodes_.erase(node);
    if (start < address) put_free(start, address - start, whole, whole.begins_segment);
    if (address + size < end) put_free(address + size, end - address - size, whole, true);
    const auto after = nodes_.find(end);
    const bool cut_off = address + size == end && kind == trace::EventKind::kSegmentUnmap;
    if (cut_off && after != nodes_.end() && after->second.domain == whole.domain) {
      after->second.begins_segment = true;
    }
    totals_.reserved_bytes -= size;
    record(kind, address, size, whole.domain.stream);
  }
  void put_free(uint64_t address, uint64_t size, const Node& like, bool begins) {
    Node node{size, 0, like.domain};
    node.begins_segment = begins;
    nodes_.emplace(address, node);
    free_.insert({like.domain, size, address});
  }

  void record(trace::EventKind kind, uint64_t address, uint64_t size, trace::StreamId stream) {
    if (trace_ == nullptr) return;
    time_ns_ += 1000;
    trace_->events.push_back({.time_ns = time_ns_,
                              .address = address,
                              .size_bytes = size,
                              .stream = stream,
                              .kind = kind});
  }

  AllocatorRules rules_;
  bool expandable_;
  trace::Trace* trace_ = nullptr;
  int64_t time_ns_ = 1'700'000'000'000'000'000;
  Nodes nodes_;
  std::set<FreeKey> free_;
  std::map<Domain, uint64_t> reservations_;
  Nodes::iterator last_merged_;
  uint64_t next_segment_ = uint64_t{1} << 44;
  Totals totals_;
};

}  // namespace vram::explain::testing
