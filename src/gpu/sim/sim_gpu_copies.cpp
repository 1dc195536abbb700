// SimGpu's copies: a device without backing has nothing to copy, and says so.
#include "gpu/sim/sim_gpu.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

namespace vram::gpu {
namespace {

constexpr uint64_t kPartBytes = 4096;
using Part = std::array<std::byte, kPartBytes>;

}  // namespace

Status SimGpu::pin(uint64_t bytes, void** host) {
  if (const Status s = begin(Call::kPin); s != Status::kOk) return s;
  if (bytes == 0) return refuse(Call::kPin, Status::kInvalidValue);
  std::unique_ptr<std::byte[]> taken(new (std::nothrow) std::byte[bytes]);
  if (taken == nullptr) return refuse(Call::kPin, Status::kOutOfMemory);
  *host = taken.get();
  pinned_[*host] = std::move(taken);
  return done(Call::kPin, 0);
}

Status SimGpu::unpin(void* host) {
  if (const Status s = begin(Call::kUnpin); s != Status::kOk) return s;
  return finish(Call::kUnpin, pinned_.erase(host) == 1 ? Status::kOk : Status::kInvalidValue);
}

Status SimGpu::create_stream(uint32_t device, StreamHandle* stream) {
  if (const Status s = begin(Call::kCreateStream); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kCreateStream, Status::kInvalidValue);
  *stream = ++last_stream_;
  created_streams_.insert(*stream);
  return done(Call::kCreateStream, 0);
}

Status SimGpu::destroy_stream(StreamHandle stream) {
  if (const Status s = begin(Call::kDestroyStream); s != Status::kOk) return s;
  const bool is_known = created_streams_.erase(stream) == 1;
  return finish(Call::kDestroyStream, is_known ? Status::kOk : Status::kInvalidValue);
}

Status SimGpu::copy_in(uint32_t device, StreamHandle, Address to, const void* from,
                       uint64_t bytes) {
  if (const Status s = begin(Call::kCopyIn); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kCopyIn, Status::kInvalidValue);
  return finish(Call::kCopyIn, write(device, to, {static_cast<const std::byte*>(from), bytes}));
}

Status SimGpu::copy_out(uint32_t device, StreamHandle, void* to, Address from, uint64_t bytes) {
  if (const Status s = begin(Call::kCopyOut); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kCopyOut, Status::kInvalidValue);
  return finish(Call::kCopyOut, read(device, from, {static_cast<std::byte*>(to), bytes}));
}

Status SimGpu::copy(uint32_t device, StreamHandle, Address to, Address from, uint64_t bytes) {
  if (const Status s = begin(Call::kCopy); s != Status::kOk) return s;
  if (!is_device(device)) return refuse(Call::kCopy, Status::kInvalidValue);
  Status status = Status::kOk;
  Part part;
  for (uint64_t at = 0; at < bytes && status == Status::kOk; at += kPartBytes) {
    const std::span some = std::span(part).first(std::min(kPartBytes, bytes - at));
    status = read(device, from + at, some);
    if (status == Status::kOk) status = write(device, to + at, some);
  }
  return finish(Call::kCopy, status);
}

Status SimGpu::fill(uint32_t device, StreamHandle, Address to, uint32_t word, uint64_t bytes) {
  if (const Status s = begin(Call::kFill); s != Status::kOk) return s;
  const bool is_words = to % sizeof(word) == 0 && bytes % sizeof(word) == 0;
  if (!is_device(device) || !is_words) return refuse(Call::kFill, Status::kInvalidValue);
  Part part;
  for (uint64_t at = 0; at < kPartBytes; at += sizeof(word)) {
    std::memcpy(part.data() + at, &word, sizeof(word));
  }
  Status status = Status::kOk;
  for (uint64_t at = 0; at < bytes && status == Status::kOk; at += kPartBytes) {
    status = write(device, to + at, std::span(part).first(std::min(kPartBytes, bytes - at)));
  }
  return finish(Call::kFill, status);
}

// SimGpu's contents, where it has any.

SimGpu::Run SimGpu::run_at(uint32_t device, Address address) const {
  Address start = 0;
  if (const Mappings::Mapping* mapping = mappings_.find(address, &start)) {
    if (!mapping->is_visible_to(device)) return {};
    const uint64_t offset = address - start;
    return {physical_.piece(mapping->handle).backing.at(offset), mapping->bytes - offset};
  }
  Segments::Tenant segment;
  const Segments::Pages* pages = segments_.find_inside(address, &start, &segment);
  if (pages == nullptr || pages->device != device) return {};
  return {pages->backing.at(address - start), segment.address + segment.bytes - address};
}

// Twice over the range: all of it must be there before any of it is copied.
template <typename Copy>
Status SimGpu::for_runs(uint32_t device, Address address, uint64_t bytes, Copy copy) const {
  if (!backing_) return Status::kNotSupported;
  for (const bool is_copying : {false, true}) {
    for (uint64_t at = 0; at < bytes;) {
      const Run run = run_at(device, address + at);
      if (run.count == 0) return Status::kFault;
      const uint64_t count = std::min(run.count, bytes - at);
      if (is_copying) copy(run.bytes, at, count);
      at += count;
    }
  }
  return Status::kOk;
}

Status SimGpu::read(uint32_t device, Address address, std::span<std::byte> out) const {
  return for_runs(device, address, out.size(),
                  [&](const std::byte* from, uint64_t at, uint64_t count) {
                    std::memcpy(out.data() + at, from, count);
                  });
}

Status SimGpu::write(uint32_t device, Address address, std::span<const std::byte> bytes) {
  return for_runs(device, address, bytes.size(), [&](std::byte* to, uint64_t at, uint64_t count) {
    std::memcpy(to, bytes.data() + at, count);
  });
}

}  // namespace vram::gpu
