// Random calls, right and wrong, against a naive model of the rules (an array of pages); and faults
// at random against a twin that never sees the calls that failed.
#include "gpu/sim/sim_gpu.hpp"
#include "gpu/testing/page.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace vram::gpu {
namespace {

constexpr uint32_t kRangePages = 12;
constexpr uint64_t kCapacityPages = 24;

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

 private:
  std::mt19937_64 random_;
};

// One range, some handles on two devices; each page knows its contents.
class Model {
 public:
  struct Page {
    Handle handle = 0;
    uint32_t page_of_handle = 0;
    std::array<bool, 2> visible{};
  };
  struct Piece {
    uint32_t device = 0;
    uint32_t pages = 0;
    bool released = false;
    std::array<uint64_t, 8> stamps{};  // what was last written at the start of each page; 0: poison
  };

  bool can_map(uint32_t at, uint32_t pages, Handle handle) const {
    const auto piece = pieces.find(handle);
    if (piece == pieces.end() || piece->second.released || piece->second.pages != pages)
      return false;
    if (at + pages > kRangePages) return false;
    for (uint32_t i = at; i < at + pages; ++i) {
      if (range[i].handle != 0) return false;
    }
    return true;
  }
  void map(uint32_t at, uint32_t pages, Handle handle) {
    for (uint32_t i = 0; i < pages; ++i) range[at + i] = {handle, i, {}};
  }
  bool is_whole(uint32_t at, uint32_t pages) const {
    if (pages == 0 || at + pages > kRangePages || range[at].page_of_handle != 0) return false;
    for (uint32_t i = at; i < at + pages; ++i) {
      if (range[i].handle == 0) return false;
    }
    const Page& last = range[at + pages - 1];
    return last.page_of_handle + 1 == pieces.at(last.handle).pages;
  }
  void unmap(uint32_t at, uint32_t pages) {
    for (uint32_t i = at; i < at + pages; ++i) range[i] = {};
    std::erase_if(pieces, [this](const auto& entry) {
      return entry.second.released && !is_mapped(entry.first);
    });
  }
  bool is_mapped(Handle handle) const {
    for (const Page& page : range) {
      if (page.handle == handle) return true;
    }
    return false;
  }
  uint64_t used_pages(uint32_t device) const {
    uint64_t pages = 0;
    for (const auto& [handle, piece] : pieces) pages += piece.device == device ? piece.pages : 0;
    return pages;
  }

  std::array<Page, kRangePages> range;
  std::map<Handle, Piece> pieces;
};

class SimGpuPropertyTest : public testing::TestWithParam<uint64_t> {
 protected:
  SimGpuPropertyTest() : gpu_(options()), random_(GetParam()) {
    EXPECT_EQ(gpu_.reserve(kRangePages * kPage, &base_), Status::kOk);
  }
  static SimOptions options() {
    const SimDevice device{kCapacityPages * kPage, kUnlimited};
    return {.devices = {device, device}, .backing = true};
  }
  static Status ok_if(bool ok) { return ok ? Status::kOk : Status::kInvalidValue; }
  Handle any_handle() {
    if (model_.pieces.empty() || random_.below(20) == 0) return 1 + random_.below(100);
    auto it = model_.pieces.begin();
    std::advance(it, random_.below(static_cast<uint32_t>(model_.pieces.size())));
    return it->first;
  }
  Address at(uint32_t page) const { return base_ + page * kPage; }

  void create() {
    const uint32_t device = random_.below(2);
    const uint32_t pages = 1 + random_.below(3);
    const bool fits = model_.used_pages(device) + pages <= kCapacityPages;
    Handle handle = 0;
    ASSERT_EQ(gpu_.create(device, pages * kPage, &handle),
              fits ? Status::kOk : Status::kOutOfMemory);
    if (fits) model_.pieces[handle] = {device, pages, false, {}};
  }
  void release() {
    const Handle handle = any_handle();
    const auto piece = model_.pieces.find(handle);
    const bool ok = piece != model_.pieces.end() && !piece->second.released;
    ASSERT_EQ(gpu_.release(handle), ok_if(ok));
    if (!ok) return;
    piece->second.released = true;
    if (!model_.is_mapped(handle)) model_.pieces.erase(piece);
  }
  void map() {
    const Handle handle = any_handle();
    const auto piece = model_.pieces.find(handle);
    const bool is_true_size = piece != model_.pieces.end() && random_.below(10) != 0;
    const uint32_t pages = is_true_size ? piece->second.pages : 1 + random_.below(3);
    const uint32_t page = random_.below(kRangePages);
    const bool ok = model_.can_map(page, pages, handle);
    ASSERT_EQ(gpu_.map(at(page), pages * kPage, handle), ok_if(ok));
    if (ok) model_.map(page, pages, handle);
  }
  void unmap() {
    const uint32_t page = random_.below(kRangePages);
    const uint32_t pages = random_.below(6);
    const bool ok = model_.is_whole(page, pages);
    ASSERT_EQ(gpu_.unmap(at(page), pages * kPage), ok_if(ok));
    if (ok) model_.unmap(page, pages);
  }
  void set_access() {
    const uint32_t page = random_.below(kRangePages);
    const uint32_t pages = random_.below(6);
    const uint32_t device = random_.below(2);
    const bool ok = model_.is_whole(page, pages);
    ASSERT_EQ(gpu_.set_access(at(page), pages * kPage, device), ok_if(ok));
    for (uint32_t i = page; ok && i < page + pages; ++i) model_.range[i].visible[device] = true;
  }
  void write() {
    const uint32_t page = random_.below(kRangePages);
    const uint32_t device = random_.below(2);
    const uint64_t stamp = 1 + random_.below(1'000'000);
    const bool ok = model_.range[page].visible[device];
    const auto bytes = std::as_bytes(std::span(&stamp, 1));
    ASSERT_EQ(gpu_.write(device, at(page), bytes), ok ? Status::kOk : Status::kFault);
    if (!ok) return;
    const Model::Page& target = model_.range[page];
    model_.pieces.at(target.handle).stamps[target.page_of_handle] = stamp;
  }
  void read_everything() {
    for (uint32_t page = 0; page < kRangePages; ++page) {
      const Model::Page& source = model_.range[page];
      for (uint32_t device = 0; device < 2; ++device) {
        uint64_t found = 0;
        const Status status =
            gpu_.read(device, at(page), std::as_writable_bytes(std::span(&found, 1)));
        ASSERT_EQ(status, source.visible[device] ? Status::kOk : Status::kFault);
        if (status != Status::kOk) continue;
        const uint64_t stamp = model_.pieces.at(source.handle).stamps[source.page_of_handle];
        ASSERT_EQ(found, stamp == 0 ? ~uint64_t{0} : stamp);
      }
    }
  }
  void step() {
    switch (random_.below(8)) {
      case 0:
        return create();
      case 1:
        return release();
      case 2:
      case 3:
        return map();
      case 4:
        return unmap();
      case 5:
        return set_access();
      default:
        return write();
    }
  }

  SimGpu gpu_;
  Random random_;
  Model model_;
  Address base_ = 0;
};

TEST_P(SimGpuPropertyTest, KeepsTheRulesAndTheBytes) {
  for (int i = 0; i < 4'000 && !HasFatalFailure(); ++i) {
    step();
    std::string why;
    ASSERT_TRUE(gpu_.validate(&why)) << why << " after " << i;
    ASSERT_EQ(gpu_.used_bytes(0), model_.used_pages(0) * kPage);
    ASSERT_EQ(gpu_.used_bytes(1), model_.used_pages(1) * kPage);
    if (i % 16 == 0) read_everything();
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SimGpuPropertyTest, testing::Values(1, 2, 3, 4));

// What a caller of one SimGpu holds; the same calls to two of them give the same of everything.
class Caller {
 public:
  explicit Caller(Random random) : random_(random) {}

  // One call; true where it did not fail by a fault. The choice of the call is drawn from random
  // alone.
  Status call(SimGpu& gpu) {
    switch (random_.below(6)) {
      case 0:
        return keep(segments_, [&](Address* out) {
          return gpu.alloc_segment(0, (1 + random_.below(8)) * kPage / 2, out);
        });
      case 1:
        return give(segments_, [&](Address address) { return gpu.free_segment(0, address); });
      case 2:
        return keep(ranges_, [&](Address* out) { return gpu.reserve(kPage, out); });
      case 3:
        return give(ranges_, [&](Address address) { return gpu.unreserve(address, kPage); });
      case 4:
        return keep(handles_, [&](Handle* out) { return gpu.create(0, kPage, out); });
      default:
        return give(handles_, [&](Handle handle) { return gpu.release(handle); });
    }
  }
  friend bool operator==(const Caller& a, const Caller& b) {
    return a.segments_ == b.segments_ && a.ranges_ == b.ranges_ && a.handles_ == b.handles_;
  }

 private:
  template <typename Make>
  static Status keep(std::vector<uint64_t>& values, Make make) {
    uint64_t value = 0;
    const Status status = make(&value);
    if (status == Status::kOk) values.push_back(value);
    return status;
  }
  template <typename End>
  Status give(std::vector<uint64_t>& values, End end) {
    if (values.empty()) return Status::kOk;
    const uint32_t i = random_.below(static_cast<uint32_t>(values.size()));
    const Status status = end(values[i]);
    if (status == Status::kOk) values.erase(values.begin() + i);
    return status;
  }

  Random random_;
  std::vector<uint64_t> segments_;
  std::vector<uint64_t> ranges_;
  std::vector<uint64_t> handles_;
};

TEST(SimGpuFaultTest, ACallThatFailsChangesNothing) {
  const SimOptions options{.devices = {{400 * kPage, kUnlimited}}};
  SimGpu faulty(options);
  SimGpu twin(options);
  faulty.faults().fail_at_random(0.3, 11, Status::kNotSupported);
  Caller caller(Random(5));
  Caller twin_caller(Random(5));
  int failed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Caller before = caller;
    if (caller.call(faulty) == Status::kNotSupported) {
      caller = before;  // as if it had not been tried
      ++failed;
      continue;
    }
    (void)twin_caller.call(twin);
    ASSERT_TRUE(caller == twin_caller) << "after " << i;
    ASSERT_EQ(faulty.used_bytes(0), twin.used_bytes(0));
  }
  EXPECT_GT(failed, 1'000);
  std::string why;
  EXPECT_TRUE(faulty.validate(&why)) << why;
  EXPECT_EQ(faulty.predict_segment(kPage), twin.predict_segment(kPage));
}

}  // namespace
}  // namespace vram::gpu
