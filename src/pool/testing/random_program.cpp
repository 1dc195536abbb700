#include "pool/testing/random_program.hpp"

#include "pool/sizes.hpp"
#include "pool/testing/pool_on_sim_gpu.hpp"

#include <algorithm>
#include <array>

namespace vram::pool {
namespace {

constexpr uint64_t kStreams = 4;
constexpr size_t kMaxLive = 60;
constexpr gpu::WorkOrder::Flag kFlag = 1;

struct Weight {
  OpKind kind;
  std::string_view name;
  uint32_t per_mille;
};
constexpr std::array kWeights = std::to_array<Weight>({
    {OpKind::kAllocate, "allocate", 320},
    {OpKind::kFree, "free", 300},
    {OpKind::kRead, "read", 60},
    {OpKind::kUse, "use", 60},
    {OpKind::kStep, "step", 156},
    {OpKind::kLend, "lend", 12},
    {OpKind::kReturn, "return", 24},
    {OpKind::kHold, "hold", 8},
    {OpKind::kFinish, "finish", 8},
    {OpKind::kTrim, "trim", 6},
    {OpKind::kLimit, "limit", 4},
    {OpKind::kForget, "forget", 6},
    {OpKind::kWait, "wait", 2},
    {OpKind::kCapture, "capture", 6},
    {OpKind::kRenew, "renew", 2},
    {OpKind::kFail, "fail", 12},
    {OpKind::kSpin, "spin", 10},
    {OpKind::kWrap, "wrap", 4},
});

OpKind kind_of(uint64_t dice) {
  dice %= 1000;
  for (const Weight& weight : kWeights) {
    if (dice < weight.per_mille) return weight.kind;
    dice -= weight.per_mille;
  }
  return OpKind::kStep;
}

uint64_t bytes_of(uint32_t number) {
  constexpr std::array kSizes = std::to_array<uint64_t>(
      {512, 4096, 300 * kKiB, kMiB, 2 * kMiB, 3 * kMiB, 5 * kMiB, 6 * kMiB, 9 * kMiB, 12 * kMiB});
  const uint64_t most = kSizes[number % kSizes.size()];
  return (number >> 8) % 4 == 0 ? most - (number >> 10) % (most / 2) : most;
}

}  // namespace

std::string to_string(const Op& op) {
  for (const Weight& weight : kWeights) {
    if (weight.kind == op.kind) {
      return std::string(weight.name) + ' ' + std::to_string(op.a) + ' ' + std::to_string(op.b);
    }
  }
  return {};
}

World world_of(uint64_t seed) {
  World world;
  world.has_room = seed % 4 == 0;
  world.has_faults = !world.has_room && seed % 2 == 1;
  world.capacity_bytes = world.has_room ? 64 * kGiB : (48 + seed % 3 * 32) * kMiB;
  world.options.handle_bytes = seed % 2 == 0 ? 4 * kMiB : 2 * kMiB;
  if (seed % 11 == 1) world.options.backing = Backing::kSegments;
  world.announces_captures = seed % 5 < 2;
  world.options.stitched_percent = seed % 5 == 0 ? 20 : 200;
  return world;
}

// A third of them repeat themselves with few changes, as training does.
std::vector<Op> random_ops(uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  const auto next = [&random] {
    return Op{kind_of(random()), static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
  };
  std::vector<Op> ops;
  const size_t period = seed % 3 == 0 ? 30 + random() % 90 : count;
  while (ops.size() < count) {
    const bool is_new = ops.size() < period || random() % 50 == 0;
    ops.push_back(is_new ? next() : ops[ops.size() - period]);
  }
  return ops;
}

RandomProgram::RandomProgram(const World& world)
    : world_(world),
      gpu_(device_of(world.capacity_bytes)),
      device_(gpu_, 0),
      pool_(device_, world.options),
      lives_(kStreams) {}

std::string RandomProgram::run(const std::vector<Op>& ops, size_t* done) {
  std::string wrong;
  for (*done = 0; *done < ops.size() && wrong.empty(); ++*done) {
    apply(ops[*done]);
    if (gpu_.has_violations()) wrong = gpu_.violations().front();
    if (wrong.empty() && *done % 128 == 0) wrong = check();
  }
  gpu_.faults().clear();
  end_captures();
  end_spin();
  while (!live_.empty()) free({});
  while (!lent_.empty()) give_back({});
  finish_all();
  gpu_.finish_work();
  // A request that fails asks for all that is done: nothing is held for ever.
  device_.allow_waiting(false);
  pool_.limit(0);
  if (pool_.allocate(kMaxAllocationBytes, 0).address == 0) ++failed_;
  if (wrong.empty() && gpu_.has_violations()) wrong = gpu_.violations().front();
  if (wrong.empty()) wrong = check();
  const bool is_held = pool_.stats().active_bytes.current != 0;  // an event may have failed
  if (wrong.empty() && is_held && !world_.has_faults) wrong = "a freed block stays held";
  return wrong;
}

std::string RandomProgram::check() {
  std::string why;
  if (!pool_.validate(&why) || !gpu_.validate(&why)) return why;
  return pool_.stats().num_ooms == failed_ ? "" : "failed requests are miscounted";
}

void RandomProgram::apply(Op op) {
  switch (op.kind) {
    case OpKind::kAllocate:
      return allocate(op);
    case OpKind::kFree:
      return free(op);
    case OpKind::kRead:
      if (!live_.empty() && is_alive(live_[op.a % live_.size()])) {
        const Live& block = live_[op.a % live_.size()];
        read(block, block.stream);
      }
      return;
    case OpKind::kUse:
      return use(op);
    case OpKind::kStep:
      for (uint32_t i = 0; i < op.b % 8; ++i) (void)gpu_.step(op.a + i);
      return;
    case OpKind::kLend:
      return lend(op);
    case OpKind::kReturn:
      return give_back(op);
    case OpKind::kHold:
      return hold(op);
    case OpKind::kFinish:
      if (held_.empty()) return;
      std::swap(held_[op.a % held_.size()], held_.back());
      pool_.finish(held_.back());
      return held_.pop_back();
    case OpKind::kTrim:
      if (world_.options.backing == Backing::kSegments) end_spin();  // the driver waits
      (void)pool_.trim(op.a % 32 * kMiB);
      return;
    case OpKind::kLimit:
      if (world_.has_room) return;
      return pool_.limit(op.a % 2 == 0 ? UINT64_MAX : (op.b % 64 + 16) * kMiB);
    case OpKind::kForget:
      return forget(op);
    case OpKind::kWait:
      end_spin();
      (void)pool_.wait();
      return;
    case OpKind::kCapture:
      return capture(op);
    case OpKind::kRenew:
      (void)pool_.renew_access();
      return;
    case OpKind::kFail:
      if (!world_.has_faults) return;
      return gpu_.faults().fail_nth(op.a % 20 + 1, Status::kOutOfMemory);
    case OpKind::kSpin:
      return spin(op);
    case OpKind::kWrap:
      finish_all();
      return pool_.restart_serials(op.a % 3 * (UINT32_MAX / 2));
  }
}

void RandomProgram::read(const Live& block, StreamHandle stream) {
  gpu_.work(stream, {{block.address, block.bytes, block.tag, false}});
}

void RandomProgram::allocate(Op op) {
  if (live_.size() >= kMaxLive) free({OpKind::kFree, op.b, 0});
  write_new(bytes_of(op.b), op.a % kStreams);
}

void RandomProgram::write_new(uint64_t bytes, StreamHandle stream) {
  gpu_.begin_stream(stream);
  const Allocation got = pool_.allocate(bytes, stream);
  if (got.address == 0) ++failed_;
  if (got.address == 0) return;
  Live block{.id = got.block,
             .address = got.address,
             .bytes = bytes,
             .stream = stream,
             .tag = ++last_tag_,
             .life = lives_[stream]};
  gpu_.work(stream, {{block.address, bytes, block.tag, true}});
  live_.push_back(block);
}

RandomProgram::Live RandomProgram::take(size_t index) {
  const Live block = live_[index];
  live_[index] = live_.back();
  live_.pop_back();
  return block;
}

void RandomProgram::free(Op op) {
  if (live_.empty()) return;
  const Live block = take(op.a % live_.size());
  if (is_alive(block)) read(block, block.stream);
  pool_.free(block.id);
}

// As a program hands a block to another stream: that waits, reads, and is recorded. For a captured
// one the host waits.
void RandomProgram::use(Op op) {
  if (live_.empty() || is_spinning_) return;
  Live& block = live_[op.a % live_.size()];
  const StreamHandle stream = op.b % kStreams;
  if (!is_alive(block) || stream == block.stream) return;
  gpu::EventHandle event = 0;
  if (gpu_.record(0, block.stream, &event) != Status::kOk) return;
  gpu_.begin_stream(stream);
  const Status waited =
      gpu_.is_captured(stream) ? gpu_.wait(event) : gpu_.stream_wait(0, stream, event);
  (void)gpu_.destroy(event);
  if (waited != Status::kOk) return;
  pool_.record_stream(block.id, stream);
  read(block, stream);
}

void RandomProgram::lend(Op op) {
  const StreamHandle stream = op.a % kStreams;
  if (lent_.size() > 6) return;
  gpu_.begin_stream(stream);
  Lent lent{.lease = {}, .stream = stream, .life = lives_[stream], .tag = ++last_tag_};
  const uint64_t bytes = bytes_of(op.b);
  if (!pool_.lend(bytes / 4 + 1, bytes, stream, &lent.lease)) return;
  gpu_.work(stream, {{lent.lease.address, lent.lease.bytes, lent.tag, true}});
  lent_.push_back(lent);
}

// All of a lease comes back, in up to eight pieces: live or free.
void RandomProgram::give_back(Op op) {
  if (lent_.empty()) return;
  const size_t index = op.a % lent_.size();
  Lent lent = lent_[index];
  lent_[index] = lent_.back();
  lent_.pop_back();
  const uint64_t step = round_size(lent.lease.bytes / 8 + 1);
  for (uint32_t bits = op.b; lent.lease.bytes > 0; bits /= 4) {
    const uint64_t bytes = std::min(lent.lease.bytes, step * (1 + bits % 2));
    const Address address = lent.lease.address;
    if (bits % 4 < 2) {
      pool_.give_back(&lent.lease, bytes, lent.stream);
      continue;
    }
    const BlockId id = pool_.keep(&lent.lease, bytes, bytes - 256, lent.stream);
    live_.push_back({.id = id,
                     .address = address,
                     .bytes = bytes - 256,
                     .stream = lent.stream,
                     .tag = lent.tag,
                     .life = lent.life});
  }
}

// Its leases come back first, as SharedPool sees to it.
void RandomProgram::forget(Op op) {
  const StreamHandle stream = op.a % kStreams;
  if (gpu_.spare_streams() <= kStreams) return;
  end_spin();
  end_capture(stream);
  if (world_.has_faults) end_captures();
  has_forgotten_ = true;
  for (size_t i = lent_.size(); i-- > 0;) {
    if (lent_[i].stream == stream) give_back({OpKind::kReturn, static_cast<uint32_t>(i), op.b});
  }
  pool_.forget(stream);
  gpu_.end_stream(stream);
  ++lives_[stream];
}

// To know of a stream that is gone, and whose last event has failed, the pool waits for the device,
// which breaks captures: where calls fail, there are none after the first stream was forgotten.
void RandomProgram::capture(Op op) {
  const StreamHandle stream = op.a % kStreams;
  if (gpu_.is_captured(stream)) return end_capture(stream);
  if (world_.has_faults && has_forgotten_) return;
  if (world_.announces_captures) pool_.allow_recording(false);
  gpu_.begin_stream(stream);
  gpu_.begin_capture(stream);
}

void RandomProgram::end_capture(StreamHandle stream) {
  if (!gpu_.is_captured(stream)) return;
  gpu_.end_capture(stream);
  bool is_any = false;
  for (StreamHandle other = 0; other < kStreams; ++other) is_any |= gpu_.is_captured(other);
  if (world_.announces_captures) pool_.allow_recording(!is_any);
}

void RandomProgram::end_captures() {
  for (StreamHandle stream = 0; stream < kStreams; ++stream) end_capture(stream);
}

void RandomProgram::hold(Op op) {
  if (live_.empty()) return;
  const size_t index = op.a % live_.size();
  held_.push_back(take(index).id);
  pool_.hold(held_.back());
}

// Before serials that were used come again: finishing twice would be a mistake then.
void RandomProgram::finish_all() {
  for (const BlockId id : held_) pool_.finish(id);
  held_.clear();
}

// A kernel that waits for what another stream's next kernel writes, whenever that comes: only with
// room for all, since the pool may wait where it has none.
void RandomProgram::spin(Op op) {
  if (!world_.has_room) return relay(op);
  if (is_spinning_) return end_spin();
  spinning_ = op.a % kStreams;
  is_spinning_ = true;
  gpu_.begin_stream(spinning_);
  end_capture(spinning_);
  gpu_.work(spinning_, {}, kFlag);
}

void RandomProgram::end_spin() {
  if (!is_spinning_) return;
  is_spinning_ = false;
  const StreamHandle other = (spinning_ + 1) % kStreams;
  gpu_.begin_stream(other);
  end_capture(other);
  gpu_.work(other, {}, 0, kFlag);
  gpu_.finish_work();
}

// A stream frees a block, then queues a kernel that waits for what another stream's kernel writes.
// That comes once the other stream has had as much memory, where memory can't grow: it must be put
// behind the free, and behind nothing that came later. All earlier work is done, so that the block
// is enough. Without faults and captures: where no event can be recorded, nothing says what came
// first.
void RandomProgram::relay(Op op) {
  if (world_.has_faults || live_.empty()) return;
  const size_t index = op.a % live_.size();
  const Live block = live_[index];
  const Live other = live_[op.b % live_.size()];
  if (!is_alive(block) || !is_alive(other) || other.stream == block.stream) return;
  end_captures();
  gpu_.finish_work();
  pool_.limit(pool_.stats().reserved_bytes.current);
  const bool is_beside_capture = world_.announces_captures && op.b % 2 == 0;
  if (is_beside_capture) pool_.allow_recording(false);
  free({OpKind::kFree, static_cast<uint32_t>(index), 0});
  if (is_beside_capture) pool_.allow_recording(true);
  gpu_.work(block.stream, {}, kFlag);
  write_new(block.bytes, other.stream);
  gpu_.work(other.stream, {}, 0, kFlag);
  gpu_.finish_work();
  pool_.limit(UINT64_MAX);
}

}  // namespace vram::pool
