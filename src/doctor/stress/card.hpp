// Card: a device under test: a pool's Device, and copies, streams and pinned memory on top. Every
// call that fails and may not (running out of memory is no failure) is noted with its name.
//
//     patterns, storm, figures ──▶ Card ◀── card_on.hpp ── any gpu::Memory with gpu::Copies
//
// Copies and failures: as many threads as lanes() says. The Device half: one thread at a time.
#pragma once

#include "doctor/stress/report.hpp"
#include "gpu/sim/call_stats.hpp"
#include "pool/device.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::doctor {

using gpu::Address;
using gpu::Status;
using gpu::StreamHandle;

class Card : public pool::Device {
 public:
  // How many threads may copy at a time.
  [[nodiscard]] virtual uint32_t lanes() const = 0;
  [[nodiscard]] virtual Status pin(uint64_t bytes, void** host) = 0;
  virtual void unpin(void* host) = 0;
  [[nodiscard]] virtual Status create_stream(StreamHandle* stream) = 0;
  virtual void destroy_stream(StreamHandle stream) = 0;
  [[nodiscard]] virtual Status copy_in(StreamHandle stream, Address to, const void* from,
                                       uint64_t bytes) = 0;
  [[nodiscard]] virtual Status copy_out(StreamHandle stream, void* to, Address from,
                                        uint64_t bytes) = 0;
  [[nodiscard]] virtual Status copy(StreamHandle stream, Address to, Address from,
                                    uint64_t bytes) = 0;
  [[nodiscard]] virtual Status fill(StreamHandle stream, Address to, uint32_t word,
                                    uint64_t bytes) = 0;
  // Waits for all that is queued in the stream.
  [[nodiscard]] virtual Status finish(StreamHandle stream) = 0;

  // Between phases: what failures from now on are said to have happened in.
  void enter(std::string_view phase) { phase_ = phase; }
  [[nodiscard]] std::vector<CallFailure> failures() const {
    const std::lock_guard guard(mutex_);
    return failures_;
  }
  // The device failed: nothing on it can be trusted any more.
  [[nodiscard]] bool is_lost() const {
    const std::lock_guard guard(mutex_);
    return is_lost_;
  }

 protected:
  // Of a failure the text says what the driver answered.
  template <typename Text>
  Status noted(gpu::Call call, Status status, const Text& text) {
    if (status == Status::kOk || status == Status::kOutOfMemory || status == Status::kNotReady ||
        status == Status::kNotSupported) {
      return status;
    }
    const std::lock_guard guard(mutex_);
    // A device that is lost fails every call: the first says why.
    const bool is_new_failure = !is_lost_ && failures_.size() < kMaxFailures;
    if (is_new_failure)
      failures_.push_back({std::string(gpu::to_string(call)), text(call, status), phase_});
    is_lost_ = is_lost_ || status == Status::kFault;
    return status;
  }

 private:
  static constexpr size_t kMaxFailures = 100;

  mutable std::mutex mutex_;
  std::vector<CallFailure> failures_;
  bool is_lost_ = false;
  std::string phase_;
};

// Pinned memory of the host, for as long as this lives; nothing where there was none.
class Pinned {
 public:
  Pinned(Card& card, uint64_t bytes) : card_(&card) {
    if (card.pin(bytes, &host_) != Status::kOk) host_ = nullptr;
  }
  Pinned(Pinned&& other) noexcept
      : card_(other.card_), host_(std::exchange(other.host_, nullptr)) {}
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned() {
    if (host_ != nullptr) card_->unpin(host_);
  }
  [[nodiscard]] explicit operator bool() const { return host_ != nullptr; }
  [[nodiscard]] uint64_t* words() const { return static_cast<uint64_t*>(host_); }

 private:
  Card* card_;
  void* host_ = nullptr;
};

// A stream of our own, for as long as this lives; its end waits for its work.
class OwnStream {
 public:
  explicit OwnStream(Card& card) : card_(&card) {
    is_made_ = card.create_stream(&stream_) == Status::kOk;
  }
  OwnStream(OwnStream&& other) noexcept
      : card_(other.card_),
        stream_(other.stream_),
        is_made_(std::exchange(other.is_made_, false)) {}
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream() {
    if (!is_made_) return;
    (void)card_->finish(stream_);
    card_->destroy_stream(stream_);
  }
  [[nodiscard]] explicit operator bool() const { return is_made_; }
  [[nodiscard]] StreamHandle get() const { return stream_; }

 private:
  Card* card_;
  StreamHandle stream_ = 0;
  bool is_made_ = false;
};

}  // namespace vram::doctor
