// Card: a device under test: its memory, with copies, streams and pinned memory. Every call that
// fails and may not (running out of memory is no failure) is noted with its name. What gives
// something back is tried once more where it fails: whatever kept the driver from it may be over.
//
//     patterns, storm, figures ──▶ Card ──▶ gpu::Memory and gpu::Copies of one device
//
// As many threads as lanes() says.
#pragma once

#include "gpu/wrapped.hpp"
#include "stress/report.hpp"

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::stress {

using gpu::Address;
using gpu::Status;
using gpu::StreamHandle;

// The driver's own message for a call of this kind that just failed.
using Answer = std::function<std::string(gpu::Call, Status)>;

class Card {
 public:
  // memory and copies must outlive it; lanes: how many threads may call them at a time.
  Card(gpu::Memory& memory, gpu::Copies& copies, uint32_t ordinal, uint32_t lanes, Answer answer)
      : memory_(memory, Noting{this}),
        copies_(copies, Noting{this}),
        ordinal_(ordinal),
        lanes_(lanes),
        answer_(std::move(answer)) {}
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  // Their calls take the ordinal.
  [[nodiscard]] gpu::Memory& memory() { return memory_; }
  [[nodiscard]] gpu::Copies& copies() { return copies_; }
  [[nodiscard]] uint32_t ordinal() const { return ordinal_; }
  // How many threads may copy at a time.
  [[nodiscard]] uint32_t lanes() const { return lanes_; }
  // Waits for all that is queued in the stream; without an event to wait for, for the whole device.
  [[nodiscard]] Status finish(StreamHandle stream);

  // Between phases: the phase of failures from now on.
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

 private:
  struct Noting {
    Card* card;
    template <typename Run>
    Status operator()(gpu::Call call, Run run) const {
      const Status status = card->note(call, run());
      const bool is_over = status == Status::kOk || status == Status::kFault;
      return is_over || !gives_back(call) ? status : run();
    }
  };
  static constexpr size_t kMaxFailures = 100;

  [[nodiscard]] static bool gives_back(gpu::Call call);
  Status note(gpu::Call call, Status status);

  gpu::WrappedMemory<Noting> memory_;
  gpu::WrappedCopies<Noting> copies_;
  uint32_t ordinal_;
  uint32_t lanes_;
  Answer answer_;
  mutable std::mutex mutex_;
  std::vector<CallFailure> failures_;
  bool is_lost_ = false;
  std::string phase_;
};

// Pinned memory of the host, for as long as this lives; nothing where there was none.
class Pinned {
 public:
  Pinned(Card& card, uint64_t bytes) : card_(&card) {
    if (card.copies().pin(bytes, &host_) != Status::kOk) host_ = nullptr;
  }
  Pinned(Pinned&& other) noexcept
      : card_(other.card_), host_(std::exchange(other.host_, nullptr)) {}
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned() {
    if (host_ != nullptr) (void)card_->copies().unpin(host_);
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
    is_made_ = card.copies().create_stream(card.ordinal(), &stream_) == Status::kOk;
  }
  OwnStream(OwnStream&& other) noexcept
      : card_(other.card_),
        stream_(other.stream_),
        is_made_(std::exchange(other.is_made_, false)) {}
  OwnStream& operator=(OwnStream&&) = delete;
  ~OwnStream() {
    if (!is_made_) return;
    (void)card_->finish(stream_);
    (void)card_->copies().destroy_stream(stream_);
  }
  [[nodiscard]] explicit operator bool() const { return is_made_; }
  [[nodiscard]] StreamHandle get() const { return stream_; }

 private:
  Card* card_;
  StreamHandle stream_ = 0;
  bool is_made_ = false;
};

}  // namespace vram::stress
