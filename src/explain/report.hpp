// size: the whole report, as plain values.
// Report: the explanation of a trace as plain values, to be drawn (show/) or read by a program.
// Sizes are bytes, times are nanoseconds: `time_ns` since the recording's first event, `_unix_ns`
// on the wall clock. A recording without a clock has clock = kEventIndex, and its "times" are event
// numbers.
#pragma once

#include "replay/result.hpp"
#include "trace/event.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::explain {

enum class Clock { kTime, kEventIndex };

// Every total the allocator counts, at one moment. requested <= allocated <= active <= reserved
// hold but for requested, which like PyTorch's requested_bytes counts blocks until their free
// completes, so compare it with active.
struct Totals {
  uint64_t requested_bytes = 0;  // of active blocks, before rounding
  uint64_t allocated_bytes = 0;  // blocks in use by tensors
  uint64_t active_bytes = 0;     // allocated, and freed but still awaited by a stream
  uint64_t reserved_bytes = 0;   // taken from the device

  friend bool operator==(const Totals&, const Totals&) = default;
};

// Moment::event of the state that the recording began with.
inline constexpr int64_t kBeforeFirstEvent = -1;

struct Moment {
  int64_t time_ns = 0;
  int64_t event = 0;  // number of the event on its device after which the totals stood
  Totals totals;
};

// The exact peaks over the recording, each with its own moment; `main` is the moment of the
// requested peak.
struct Peak {
  Moment requested;
  Moment allocated;
  Moment active;
  Moment reserved;
};

// Live bytes over time: equal slices of time, in each the largest value of every total.
struct TimelineSlice {
  int64_t begin_ns = 0;
  Totals largest;
};

struct Frame {
  std::string function;
  std::string file;
  uint32_t line = 0;
};

// A group of live memory at a moment.
struct Holder {
  std::string name;  // one line: "train.py:42 loss_fn", "layers.7.mlp · activation", "4 MiB
                     // blocks", "before recording"
  uint64_t requested_bytes = 0;
  uint64_t block_bytes = 0;  // with rounding: what freeing it would make free
  uint64_t count = 0;        // blocks
  uint64_t largest_bytes = 0;
  // allocation time of its oldest block; negative or 0: before the recording
  int64_t oldest_ns = 0;
  bool before_recording = false;  // all of it was alive before the first event
  std::vector<Frame> stack;       // by stack only: innermost first
};

enum class Dimension {
  kStack,
  kUserFrame,
  kScope,
  kSize,
  kStream,
  kAge,
  kPool,
  kCategory,
  kOperator
};

struct Breakdown {
  Dimension by = Dimension::kUserFrame;
  std::vector<Holder> holders;  // largest first, complete; the sums equal the moment's totals
};

// Of a segment: live blocks that use no more of it pin it.
inline constexpr double kMaxPinningShare = 0.125;

// Reserved but not allocated, by why it can't be given to the next request.
struct Waste {
  uint64_t pending_bytes = 0;            // freed, awaited by another stream
  uint64_t pending_requested_bytes = 0;  // of the pending blocks: a part of Totals::requested_bytes
  uint64_t rounding_bytes = 0;           // block sizes minus requested bytes of allocated blocks
  uint64_t releasable_bytes = 0;         // segments entirely free: empty_cache() gives them back
  uint64_t releasable_small_bytes = 0;   // ... of these, in segments for requests up to 1 MiB
  // ... and of the others, in segments of a stream other than the one with most memory
  uint64_t releasable_side_bytes = 0;
  uint64_t stranded_bytes = 0;  // holes in segments that live blocks hold
  // ... of these, in segments of which live blocks use at most kMaxPinningShare
  uint64_t pinned_bytes = 0;
  uint64_t private_pool_bytes = 0;  // free in private pools, whose CUDA graphs or MemPools use it
  uint64_t hole_count = 0;          // those that are stranded
  // the largest free block: the largest request served without a new segment...
  uint64_t largest_hole_bytes = 0;
  std::string largest_hole_domain;  // ... if the request is of this pool and stream
};

// A live block (or group from one site) whose release would empty a segment.
struct Pinner {
  std::string name;
  uint64_t pinned_bytes = 0;    // its own bytes
  uint64_t stranded_bytes = 0;  // in the segments it alone keeps; a part of Waste::stranded_bytes
  uint64_t segment_count = 0;
};

// The state at one moment: the peak, --at, an OOM.
struct State {
  Moment moment;
  Waste waste;
  std::vector<Breakdown> breakdowns;
  std::vector<Pinner> pinners;  // largest stranded first
  uint64_t segment_count = 0;
  uint64_t block_count = 0;  // active blocks
  // Requested bytes of blocks with a name or a scope; nothing if the recording has neither.
  // Breakdowns also have kCategory then.
  std::optional<uint64_t> named_bytes;
};

enum class StepSource { kNone, kAnnotations, kRepetition };

struct Step {
  std::string name;  // the annotation's, or "step 3"
  uint64_t first_event = 0;
  uint64_t event_count = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t peak_requested_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_event = 0;           // after it, requested bytes were at this step's peak
  uint64_t end_requested_bytes = 0;  // alive at its end
};

struct Phase {
  std::string name;              // a scope, or "rise", "fall", "rest" of the live curve
  int64_t duration_ns = 0;       // median over the steady steps
  uint64_t peak_bytes = 0;       // requested, median
  int64_t delta_bytes = 0;       // end minus begin, median
  uint64_t allocated_bytes = 0;  // requested inside, median
};

struct Steps {
  StepSource source = StepSource::kNone;
  std::string evidence;       // "annotation Optimizer.step#AdamW.step, 12 times"
  uint64_t warmup_count = 0;  // first steps left out of medians and growth
  std::vector<Step> steps;
  std::vector<Phase> phases;
};

enum class GrowthKind { kLeak, kOneOff, kBoundedCache, kUndecided };

// Whether the recording could be judged for leaks, and if not, why.
enum class LeakVerdict { kJudged, kNoFrees, kNoSteps, kTooFewSteps, kMostlyKept };

// A site whose live bytes grew from step to step.
struct Growth {
  GrowthKind kind = GrowthKind::kLeak;
  std::string site;          // user frame, or size class without stacks
  std::string line;          // the user frame; of several, that by which they are named; "": none
  std::vector<Frame> stack;  // a typical one
  // Over the steady steps from the first birth on, and its 95 % interval (growth_group.hpp).
  double bytes_per_step = 0;
  double bytes_per_step_low = 0;
  double bytes_per_step_high = 0;
  double rise_p_value = 1;  // of a leak: the Mann–Kendall test of its live bytes at step ends
  uint64_t since_step = 0;  // index of the first step whose blocks are alive at the end
  // At the rate of this site alone, after the last step; absent if the memory is unknown.
  std::optional<uint64_t> steps_to_full;
  uint64_t live_bytes = 0;  // at the end of the last complete step
  uint64_t live_count = 0;
  uint64_t birth_steps = 0;  // different steps whose blocks are alive there
  uint64_t steady_steps = 0;
  // Births at a lasting rate against a cache that fills: log10 of the ratio of likelihoods.
  double log10_lasting_ratio = 0;
  uint64_t sites_tested = 0;  // on this device
  int64_t oldest_ns = 0;
};

struct Oom {
  Moment moment;
  uint64_t requested_bytes = 0;
  uint64_t device_free_bytes = 0;
  uint64_t largest_hole_bytes = 0;
  std::optional<uint64_t> step;  // index
  State state;
  // The process's limit that refused it; nothing if the device itself was full, or if no limit
  // explains the recording.
  std::optional<uint64_t> limit_bytes;
};

// A replay of the same program with another allocator or other settings.
struct WhatIf {
  std::string allocator;  // as for `vram replay --allocator`
  bool is_recorded = false;
  bool is_recommended = false;  // of one at most: the setting to change to, as `vram tune` ranks
  replay::Basis basis = replay::Basis::kEmulated;
  bool completed = false;
  uint64_t peak_reserved_bytes = 0;  // until it ran out of memory, if it did
  uint64_t retries = 0;
  int64_t driver_time_ns = 0;         // estimated
  std::optional<uint64_t> oom_event;  // if it ran out of memory
};

struct WhatIfs {
  replay::Fidelity fidelity = {};  // of the replay of the recorded settings
  // The limit that it met, or the most it was granted where others filled the device; or none.
  std::optional<uint64_t> capacity_bytes;
  bool capacity_is_assumed = false;
  std::vector<WhatIf> replays;  // the recorded settings first
};

// How far the recording can be believed.
enum class Confidence {
  kExact,          // "end state reproduced exactly"
  kContradiction,  // "segments contradict the trace"
  kOverflow,       // "ring overflowed: the first part is missing"
  kTruncated,      // "file truncated: the last part is missing"
  kUnchecked,      // "not checked": no end state, or next to no events
  kConsistent,     // nor is one needed: recorded from the beginning, without a contradiction
};

struct Verdict {
  Confidence confidence = Confidence::kUnchecked;
  std::string detail;  // with numbers: what was compared, the first contradiction
  uint64_t mismatches = 0;
  uint64_t before_recording_bytes = 0;  // alive before the first event
  uint64_t before_recording_count = 0;
  uint64_t assumed_segment_bytes = 0;  // reserved, since blocks were there; no segment is recorded
};

enum class FindingKind {
  kOom,
  kLeak,
  kFragmentation,
  kReleasable,
  kPending,
  kRounding,
  kStreams,
  kGrowth,
  kHolder,
  kRecording,
  // Patterns of waste (waste/patterns.hpp).
  kGradientsKept,
  kIdleState,
  kTemporaries,
  kLateFree,
  kPrefetch,
  kDuplicate,
  kOldModel,
  kEqualParameters,
  kNoGrad,
  kUpcast,
  kMixedLifetimes,
  kChurn,
  kCleaning,
  kDataParallel,
  kPinnedHost
};

// An important result; ordered by bytes.
struct Finding {
  FindingKind kind = FindingKind::kRecording;
  uint64_t bytes = 0;
  std::string title;      // one line
  std::string detail;     // the evidence, with numbers
  std::string advice;     // what to do next, concretely
  std::string line = {};  // the line of code to change: "train.py:42 main"; empty if unknown
  // By how much the peaks of requested and of reserved memory fall if the recording is replayed
  // with the change made; nothing where no such replay was made.
  std::optional<uint64_t> saves_bytes = {};
  std::optional<uint64_t> saves_reserved_bytes = {};
};

// What of the device's used memory a line of Rest is.
enum class RestKind {
  kAllocator,  // reserved by the recorded allocator
  kDriver,     // the driver's own, for all processes
  kOthers,     // other processes
  kContext,    // this process's context, with what was loaded until the first sample
  kLibrary,    // of a library, by its calls of the driver
  kGrowth,     // measured around something, as the creation of a communicator
  kGraphs,     // memory nodes of CUDA graphs
  kPool,       // the default pool of cudaMallocAsync
  kModules     // of this process, allocated by no call
};

struct RestItem {
  RestKind kind = RestKind::kAllocator;
  std::string name;
  int64_t bytes = 0;
  std::string basis;  // how it is known
};

// The device's used memory when a sample found most of it used: the items and the unnamed bytes add
// up to it.
struct Rest {
  int64_t time_ns = 0;
  uint64_t sample_count = 0;
  std::optional<uint64_t> total_bytes;
  uint64_t used_bytes = 0;  // with the driver's own
  std::vector<RestItem> items;
  int64_t unnamed_bytes = 0;  // below 0: items that were measured at other times exceed the whole
  std::vector<std::string> not_observed;
};

// Collectives or copies of one kind, name and group.
struct MarkTotal {
  trace::MarkKind kind = trace::MarkKind::kOther;
  std::string name;
  std::string group;
  uint64_t count = 0;
  uint64_t bytes = 0;
  int64_t duration_ns = 0;  // of the calls on the host
  // In a steady step, medians; nothing without steps.
  std::optional<uint64_t> step_count = {};
  std::optional<uint64_t> step_bytes = {};
  std::optional<int64_t> step_duration_ns = {};
};

// A collective or a copy of a step.
struct MarkLine {
  int64_t time_ns = 0;
  size_t total = 0;  // its index in Marks::totals
  uint64_t bytes = 0;
  int64_t duration_ns = 0;
  std::optional<uint64_t> step;  // index
};

inline constexpr size_t kMaxMarkLines = 10'000;
inline constexpr size_t kMaxMarkTotals = 256;

struct Marks {
  std::vector<MarkTotal> totals;  // most bytes first, the first kMaxMarkTotals
  uint64_t count = 0;             // of all marks
  std::vector<MarkLine> lines;    // of these totals, the first kMaxMarkLines
};

struct DeviceReport {
  uint32_t ordinal = 0;
  bool is_host = false;
  std::optional<uint64_t> memory_bytes;  // of the device, if recorded
  uint64_t events = 0;
  uint64_t allocations = 0;
  uint64_t frees = 0;
  uint64_t device_allocs = 0;  // segment_alloc and segment_map
  uint64_t device_frees = 0;
  int64_t begin_unix_ns = 0;
  int64_t duration_ns = 0;  // from the recording's first event to this device's latest
  uint64_t stream_count = 0;
  uint64_t pool_count = 0;
  Peak peak;
  std::vector<TimelineSlice> timeline;
  State at_peak;  // of requested bytes
  // Waste at the maximum of reserved memory: of the moments with this maximum, the first with the
  // most requested bytes. A peak that is reached early may last until the end.
  State at_reserved_peak;
  std::optional<State> at;  // --at
  Steps steps;
  LeakVerdict leak_verdict = LeakVerdict::kJudged;
  std::vector<Growth> growth;      // leaks first, then by bytes per step
  uint64_t oom_count = 0;          // requests that failed
  std::vector<Oom> ooms;           // the first and the last of them, if there are many
  std::optional<WhatIfs> what_if;  // if it ran out of memory, or with much waste
  Verdict verdict;
  std::vector<Finding> findings;
  std::optional<Rest> rest;  // if the recording has samples of the device
  Marks marks;               // of the device, and those of none
};

struct NoteLine {
  std::string text;
  uint64_t count = 1;
};

// The recorded facts about the process, among the processes of its program.
struct Process {
  std::optional<uint64_t> rank;
  std::optional<uint64_t> world_size;
  std::string host;
};

struct Report {
  std::string path;
  std::string format;
  uint64_t file_bytes = 0;
  Clock clock = Clock::kTime;
  bool has_stacks = false;
  std::optional<uint64_t> truncated_at_byte;
  Process process;
  std::vector<NoteLine> notes;
  // those that differ from the defaults first
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<DeviceReport> devices;  // with events or segments
  size_t main_device = 0;  // index into devices: --device, else the one with the largest peak
};

}  // namespace vram::explain
