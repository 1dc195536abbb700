#include "cli/recorded_program.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "cli/output.hpp"
#include "replay/capacity.hpp"
#include "replay/fidelity.hpp"
#include "replay/recorded_limit.hpp"
#include "replay/replay.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace vram::cli {
namespace {

using trace::DeviceKind;
using trace::DeviceTrace;

std::vector<const DeviceTrace*> gpus_of(const trace::Trace& trace) {
  std::vector<const DeviceTrace*> gpus;
  for (const DeviceTrace& device : trace.devices) {
    if (device.kind == DeviceKind::kGpu) gpus.push_back(&device);
  }
  return gpus;
}

tl::unexpected<Error> no_such_gpu(uint32_t device, const std::vector<const DeviceTrace*>& gpus) {
  std::string there;
  for (const DeviceTrace* gpu : gpus)
    there += fmt::format("{}{}", there.empty() ? "" : ", ", gpu->ordinal);
  return fail(Code::kNotFound, "--device {}: the recording has GPU {}", device, there);
}

Result<RecordedProgram> named_program(const trace::Trace& trace,
                                      const std::vector<const DeviceTrace*>& gpus,
                                      uint32_t device) {
  const auto found = std::ranges::find(gpus, device, &DeviceTrace::ordinal);
  if (found == gpus.end()) return no_such_gpu(device, gpus);
  return RecordedProgram{*found, replay::make_program(trace, **found), {}, {}};
}

RecordedProgram largest_program(const trace::Trace& trace,
                                const std::vector<const DeviceTrace*>& gpus) {
  RecordedProgram largest;
  uint64_t most = 0;
  for (const DeviceTrace* gpu : gpus) {
    replay::Program program = replay::make_program(trace, *gpu);
    const uint64_t peak = replay::peak_live_bytes(program);
    if (largest.device != nullptr && peak <= most) continue;
    most = peak;
    largest = {gpu, std::move(program), {}, {}};
  }
  return largest;
}

Capacity recorded_capacity(const RecordedProgram& recorded) {
  const auto& limit = recorded.limit;
  if (!limit) return {};
  return {.bytes = limit->bytes,
          .is_fraction = limit->is_fraction,
          .source = show::CapacitySource::kRecorded,
          .recorded_limit_unknown = limit->is_assumed};
}

Result<Capacity> card_capacity(CardMemory card, std::optional<uint64_t> context_bytes) {
  card.context_bytes = context_bytes.value_or(card.context_bytes);
  const uint64_t bytes = card.allocator_bytes();
  if (bytes == 0) {
    return fail(Code::kBadInput, "--gpu {}: a CUDA context of {} leaves nothing of {}", card.name,
                format_bytes(card.context_bytes), format_bytes(card.program_bytes));
  }
  return Capacity{
      .bytes = bytes,
      .source = show::CapacitySource::kAsked,
      .card = trf("{}: {} for programs ({}) minus {} for the CUDA context", card.name,
                  format_bytes(card.program_bytes), card.source, format_bytes(card.context_bytes))};
}

// "16GiB", "unlimited"
Result<Capacity> parse_capacity(std::string_view option, std::string_view text) {
  if (text == "unlimited") return Capacity{};
  VRAM_TRY_ASSIGN(const auto bytes, parse_size(option, text));
  if (bytes == 0) return fail(Code::kBadInput, "{}: expected more than 0 bytes", option);
  return Capacity{.bytes = bytes, .source = show::CapacitySource::kAsked};
}

}  // namespace

Option replayed_device_option(std::optional<uint32_t>& target) {
  return {"--device", "N", tr("the GPU to replay (default: the one with the largest peak)"),
          value(target, parse_number<uint32_t>)};
}

Result<RecordedProgram> recorded_program(const trace::Trace& trace, std::optional<uint32_t> device,
                                         const Console& console) {
  Progress progress(console, tr("preparing the replay"));
  progress.announce(trace.events.size());
  const std::vector<const DeviceTrace*> gpus = gpus_of(trace);
  if (gpus.empty()) {
    return fail(Code::kBadInput, "{}: contains no GPU, so there is nothing to replay",
                trace.origin.path);
  }
  Result<RecordedProgram> result =
      device ? named_program(trace, gpus, *device) : largest_program(trace, gpus);
  if (result && result->program.ops.empty()) {
    return fail(Code::kBadInput,
                "{}: contains no allocation of GPU {}, so there is nothing to replay; record with "
                "torch.cuda.memory._record_memory_history()",
                trace.origin.path, result->device->ordinal);
  }
  if (result) {
    const replay::AllocatorSpec own = replay::recorded_spec(trace);
    result->limit = replay::settle_recorded(result->program, own);
    result->fidelity = replay::prove(result->program, own, result->limit);
  }
  return result;
}

std::vector<Option> capacity_options(CapacityOptions& targets) {
  return {
      {"--capacity", "SIZE",
       tr("memory available to the allocator: 16GiB, or unlimited (default: the limit of the "
          "recorded program, if it reached one); a GPU has more memory than that, because the "
          "driver and the CUDA context need some: see --gpu"),
       value(targets.capacity, parse_capacity)},
      {"--gpu", "CARD",
       tr("use a card's memory instead of --capacity, less what the CUDA context needs: a name "
          "(\"RTX 4090\") or a size (24GiB)"),
       value(targets.gpu, find_card)},
      {"--context", "SIZE",
       tr("with --gpu: memory used by the CUDA context and libraries (default: the known value of "
          "the card, or 512MiB)"),
       value(targets.context_bytes, parse_size)}};
}

Result<Capacity> capacity_for(const RecordedProgram& recorded, const CapacityOptions& options) {
  if (options.gpu && options.capacity) {
    return fail(Code::kBadInput, "--gpu and --capacity exclude each other: use one of them");
  }
  if (!options.gpu && options.context_bytes)
    return fail(Code::kBadInput, "--context requires --gpu");
  if (options.gpu) return card_capacity(*options.gpu, options.context_bytes);
  return options.capacity ? *options.capacity : recorded_capacity(recorded);
}

Option lag_option(int64_t& target_ns) {
  return {
      "--lag", "TIME",
      tr("assumed delay of a stream's work behind the host, if the recording does not contain it "
         "(10ms)"),
      value(target_ns, parse_duration_ns)};
}

void fill_subject(const trace::Trace& trace, const RecordedProgram& recorded,
                  const Capacity& capacity, show::ReplaySubject& subject) {
  subject.path = trace.origin.path;
  subject.format = trace.origin.format;
  subject.file_bytes = trace.origin.file_bytes;
  subject.truncated_at_byte = trace.origin.truncated_at_byte;
  subject.has_time = trace.has_time;
  subject.device = recorded.device->ordinal;
  subject.ring_overflowed = recorded.device->ring_overflowed;
  subject.events = recorded.device->event_count;
  subject.duration_ns = recorded.program.duration_ns;
  subject.fidelity = recorded.fidelity;
  subject.requests =
      static_cast<uint64_t>(std::ranges::count_if(recorded.program.ops, [](const replay::Op& op) {
        return op.kind == replay::OpKind::kAlloc || op.kind == replay::OpKind::kRefused;
      }));
  subject.capacity_bytes = capacity.bytes;
  subject.capacity_source = capacity.source;
  subject.card = capacity.card;
  subject.recorded_limit_unknown = capacity.recorded_limit_unknown;
}

namespace {

constexpr std::string_view kMeasured = "measured";
constexpr std::string_view kStated = tr_later("stated by users");
constexpr std::string_view kAssumed = "assumed";

// Where nothing is known of a card's context.
constexpr uint64_t kDefaultContextMib = 512;

struct KnownCard {
  std::string_view name;
  double program_gib;
  uint64_t context_mib;
  std::string_view source;
};

// Measured: driver 580.159, CUDA 13.0, PyTorch 2.11, after kernels of cuBLAS and cuDNN had run (527
// MiB before). Stated: totals, and what the process held besides PyTorch's memory, from the text of
// PyTorch's own out-of-memory errors in public bug reports of 2023 to 2026; of several, the
// smallest total. On cards with ECC that users can switch off, it was on, except on the RTX 40 and
// 50 series.
constexpr std::array kCards{
    KnownCard{"H200", 139.8, 765, kMeasured},
    KnownCard{"H100 80GB", 79.11, kDefaultContextMib, kStated},
    KnownCard{"A100 80GB", 79.25, 523, kStated},
    KnownCard{"A100 40GB", 39.50, 500, kStated},
    KnownCard{"A30", 23.53, kDefaultContextMib, kStated},
    KnownCard{"A10", 21.99, 224, kStated},
    KnownCard{"L40", 44.40, 500, kStated},
    KnownCard{"L40S", 44.42, 420, kStated},
    KnownCard{"L4", 22.03, 236, kStated},
    KnownCard{"T4", 14.56, 133, kStated},
    KnownCard{"RTX 6000 Ada", 44.43, 430, kStated},
    KnownCard{"RTX A4000", 15.61, 210, kStated},
    KnownCard{"RTX 5090", 31.36, 610, kStated},
    KnownCard{"RTX 4090", 23.52, 450, kStated},
    KnownCard{"RTX 3090", 23.54, 260, kStated},
    KnownCard{"RTX 2080 Ti", 10.74, 200, kStated},
};

// Of the memory that a card is sold with, programs get this share at least on the cards above whose
// ECC takes nothing from it.
constexpr double kProgramShare = 0.98;

// "NVIDIA GeForce RTX-4090" -> "rtx4090".
std::string plain(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view word : {"nvidia", "geforce", "tesla"}) {
    if (const size_t at = name.find(word); at != std::string::npos) name.erase(at, word.size());
  }
  return name;
}

std::string known_names() {
  std::string names;
  for (const KnownCard& card : kCards)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  return names;
}

uint64_t bytes_of(double gib) { return static_cast<uint64_t>(gib * static_cast<double>(kGiB)); }

}  // namespace

Result<CardMemory> find_card(std::string_view text) {
  const auto card =
      std::ranges::find(kCards, plain(text), [](const auto& each) { return plain(each.name); });
  if (card != kCards.end()) {
    return CardMemory{.name = std::string(card->name),
                      .program_bytes = bytes_of(card->program_gib),
                      .context_bytes = card->context_mib * kMiB,
                      .source = card->source};
  }
  if (const auto sold = parse_size("", text)) {
    const double bytes = kProgramShare * static_cast<double>(*sold);
    return CardMemory{.name = format_bytes(*sold),
                      .program_bytes = static_cast<uint64_t>(bytes),
                      .context_bytes = kDefaultContextMib * kMiB,
                      .source = kAssumed};
  }
  return fail(Code::kNotFound,
              "no card is called '{}'; known: {}; or write its memory, as in 24GiB", text,
              known_names());
}

}  // namespace vram::cli
