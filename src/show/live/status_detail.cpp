#include "show/live/status_detail.hpp"

#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "show/live/status_words.hpp"
#include "watch/figures/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <variant>

namespace vram::show {
namespace {

namespace figures = watch::figures;
using watch::Device;

constexpr int kStep = 2;
constexpr int kValueColumn = 30;

// A page of names and values; a section indents its lines.
class Sheet {
 public:
  explicit Sheet(Page& page) : page_(page) {}

  void open(std::string_view title, Style style = Style::kPlain) {
    page_.add(Line().pad_to(indent_).add(title, style));
    indent_ += kStep;
  }
  void close() { indent_ -= kStep; }
  void add_entry(std::string_view name, const std::string& value) {
    page_.paragraph(Line().pad_to(indent_).add(name, Style::kFaint).add("  ").pad_to(kValueColumn),
                    value);
  }
  [[nodiscard]] Page& page() { return page_; }

 private:
  Page& page_;
  int indent_ = 0;
};

// To the byte, since that is what one compares with other tools.
std::string exact_bytes(const std::optional<uint64_t>& bytes) {
  if (!bytes) return std::string(kUnknown);
  if (*bytes < kKiB) return format_bytes(*bytes);
  return fmt::format("{} ({} B)", format_bytes(*bytes), format_count(*bytes));
}

std::string exact_rate(const std::optional<uint64_t>& bytes_per_second) {
  if (!bytes_per_second) return std::string(kUnknown);
  std::string rate = format_bytes(*bytes_per_second) + "/s";
  if (*bytes_per_second < kKiB) return rate;
  return fmt::format("{} ({} B/s)", rate, format_count(*bytes_per_second));
}

std::string exact_signed(const std::optional<int64_t>& bytes) {
  if (!bytes) return std::string(kUnknown);
  const uint64_t size = *bytes < 0 ? 0 - static_cast<uint64_t>(*bytes) : uint64_t(*bytes);
  if (size < kKiB) return format_bytes_signed(*bytes);
  return fmt::format("{} ({}{} B)", format_bytes_signed(*bytes), *bytes < 0 ? "-" : "+",
                     format_count(size));
}

std::string number_text(const std::optional<uint32_t>& number) {
  return number ? std::to_string(*number) : std::string(kUnknown);
}

std::string yes_text(bool value) { return value ? tr("yes") : tr("no"); }

std::string reasons_text(const std::vector<std::string>& reasons) {
  return reasons.empty() ? tr("no") : printable(fmt::format("{}", fmt::join(reasons, tr(", "))));
}

std::string xids_text(const std::vector<watch::XidCount>& counts) {
  std::vector<std::string> texts;
  for (const watch::XidCount& each : counts) texts.push_back(xid_text(each));
  return texts.empty() ? tr("none since this program began")
                       : fmt::format("{}", fmt::join(texts, tr("; ")));
}

std::string unsigned_text(figures::Unit unit, uint64_t number) {
  const auto narrow = static_cast<uint32_t>(number);
  switch (unit) {
    case figures::Unit::kNumber:
    case figures::Unit::kProcesses:
      return std::to_string(number);
    case figures::Unit::kCount:
      return format_count(number);
    case figures::Unit::kBytes:
      return exact_bytes(number);
    case figures::Unit::kBytesPerSecond:
      return exact_rate(number);
    case figures::Unit::kPercent:
      return percent_text(narrow);
    case figures::Unit::kCelsius:
      return celsius_text(narrow);
    case figures::Unit::kMilliwatts:
      return watts_text(narrow);
    case figures::Unit::kMegahertz:
      return mhz_text(narrow);
    case figures::Unit::kNanoseconds:
      return duration_text(number);
  }
  return "";
}

// What is known, in words.
struct ToText {
  figures::Unit unit;

  std::string operator()(std::monostate /*unknown*/) const { return std::string(kUnknown); }
  std::string operator()(bool flag) const { return yes_text(flag); }
  std::string operator()(uint64_t number) const { return unsigned_text(unit, number); }
  std::string operator()(int64_t bytes) const { return exact_signed(bytes); }
  std::string operator()(double number) const { return fmt::format("{}", number); }
  std::string operator()(std::string_view text) const { return printable(text); }
  std::string operator()(const std::vector<std::string>* texts) const {
    return reasons_text(*texts);
  }
  std::string operator()(const std::vector<watch::XidCount>* counts) const {
    return xids_text(*counts);
  }
  template <typename T>
  std::string operator()(const std::vector<T>* objects) const {
    return std::to_string(objects->size());
  }
};

struct SectionFacts {
  figures::Section section;
  std::string_view title;    // "": its lines stand by themselves
  bool is_optional = false;  // not shown where the object that its figures are in is unknown
};

constexpr std::array kSections = {
    SectionFacts{figures::Section::kIdentity, ""},
    SectionFacts{figures::Section::kMemory, tr_later("memory")},
    SectionFacts{figures::Section::kHostMemory, tr_later("host memory that it may use"), true},
    SectionFacts{figures::Section::kInstanceMemory, tr_later("memory, of its GPU instance")},
    SectionFacts{figures::Section::kBalance, ""},
    SectionFacts{figures::Section::kBar1, "BAR1"},
    SectionFacts{figures::Section::kActivity, tr_later("activity")},
    SectionFacts{figures::Section::kTraffic, tr_later("traffic")},
    SectionFacts{figures::Section::kErrors, tr_later("errors")},
    SectionFacts{figures::Section::kUse, ""},
    SectionFacts{figures::Section::kAllocator, tr_later("allocator"), true}};

template <typename T>
using FigureRow = const figures::Figure<T>*;

// "3 for corrected errors, 1 for uncorrected; one waits for a reset". A number that is unknown is
// left out, unless it is a count.
template <typename T>
std::string line_text(std::span<const FigureRow<T>> rows, const T& object) {
  std::vector<std::string> numbers;
  std::string flags;
  bool any_known = false;
  for (const FigureRow<T> row : rows) {
    const figures::Value value = row->value(object);
    const std::string_view words = row->detail.words;
    if (row->value.shape == figures::Shape::kFlag && !words.empty()) {
      if (value == figures::Value(true)) flags += fmt::format("; {}", tr(words));
      continue;
    }
    const bool is_known = value.index() != 0;
    any_known = any_known || is_known;
    if (!is_known && row->unit != figures::Unit::kCount) continue;
    numbers.push_back(std::visit(ToText{row->unit}, value));
    if (!words.empty()) numbers.back() += fmt::format(" {}", tr(words));
  }
  return (any_known ? fmt::format("{}", fmt::join(numbers, tr(", "))) : std::string(kUnknown)) +
         flags;
}

// Whether the figure is known; of one in an object, whether that is.
template <typename T>
bool is_there(FigureRow<T> row, const T& object) {
  if (row->in != nullptr && row->in->is_known != nullptr) return row->in->is_known(object);
  return row->value(object).index() != 0;
}

template <typename T>
void draw_figure_lines(std::span<const FigureRow<T>> rows, const T& object, Sheet& sheet) {
  while (!rows.empty()) {
    const figures::DetailCell& cell = rows.front()->detail;
    const auto end =
        std::ranges::find_if(rows, [&](FigureRow<T> row) { return row->detail.name != cell.name; });
    const auto line = rows.first(static_cast<size_t>(end - rows.begin()));
    if (!cell.is_optional || is_there(rows.front(), object))
      sheet.add_entry(tr(cell.name), line_text<T>(line, object));
    rows = rows.subspan(line.size());
  }
}

template <typename T>
std::vector<FigureRow<T>> rows_in(figures::Section section) {
  static const auto kSorted = [] {
    std::map<figures::Section, std::vector<FigureRow<T>>> sorted;
    for (const figures::Figure<T>& row : figures::figures_of<T>()) {
      const figures::Section its = row.detail.section;
      if (!sorted.contains(its))
        sorted[its] = figures::arranged<T>(
            &figures::Figure<T>::detail,
            [its](const figures::DetailCell& cell) { return cell.section == its; });
    }
    return sorted;
  }();
  const auto found = kSorted.find(section);
  return found != kSorted.end() ? found->second : std::vector<FigureRow<T>>();
}

template <typename T>
void draw_section(const SectionFacts& section, const T& object, Sheet& sheet) {
  const std::vector<FigureRow<T>> rows = rows_in<T>(section.section);
  if (rows.empty() || (section.is_optional && !is_there(rows.front(), object))) return;
  if (!section.title.empty()) sheet.open(tr(section.title));
  draw_figure_lines<T>(rows, object, sheet);
  if (!section.title.empty()) sheet.close();
}

template <typename T>
void draw_figures(const T& object, Sheet& sheet) {
  for (const SectionFacts& section : kSections) draw_section(section, object, sheet);
}

void draw_instances(const gpu::DeviceHealth& health, Sheet& sheet) {
  for (const gpu::MigInstance& each : health.mig_instances) {
    sheet.open(trf("MIG instance {}/{}", each.gpu_instance, each.compute_instance));
    draw_figures(each, sheet);
    sheet.close();
  }
}

void draw_process(const watch::Process& process, const watch::Use& use, Sheet& sheet) {
  sheet.open(trf("process {}", process.facts->pid), Style::kStrong);
  if (is_visible(*process.facts))
    draw_section({figures::Section::kOwner, ""}, process, sheet);
  else
    sheet.add_entry(tr("process"), tr("hidden: gone, or in another pid namespace"));
  if (use.process.gpu_instance)
    sheet.add_entry(tr("MIG instance"), fmt::format("{}/{}", *use.process.gpu_instance,
                                                    number_text(use.process.compute_instance)));
  draw_figures(use, sheet);
  draw_section({figures::Section::kProgress, ""}, process, sheet);
  sheet.close();
}

void draw_process_table(const watch::Snapshot& snapshot, const Device& device, Sheet& sheet) {
  bool any = false;
  for (const watch::Process& process : snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device != device.identity.index) continue;
      draw_process(process, use, sheet);
      any = true;
    }
  }
  if (!any)
    sheet.add_entry(tr("processes"), device.sample.processes ? tr("none") : std::string(kUnknown));
}

void draw_device(const watch::Snapshot& snapshot, const Device& device, Sheet& sheet) {
  sheet.page().blank();
  sheet.open(fmt::format("GPU {}", device.identity.index), Style::kHeading);
  for (const Remark& remark : remarks(device))
    sheet.page().paragraph(Line().pad_to(kStep).add(remark.mark, remark.style), remark.text,
                           remark.style);
  draw_figures(device, sheet);
  draw_instances(device.health, sheet);
  draw_process_table(snapshot, device, sheet);
  sheet.close();
}

}  // namespace

std::string draw_status_detail(const watch::Snapshot& snapshot, const TextOptions& options) {
  Page page(options);
  Sheet sheet(page);
  sheet.add_entry(tr("host"), name_text(snapshot.host));
  sheet.add_entry(tr("time"), clock_text(snapshot.time_ns));
  sheet.add_entry(tr("GPUs"), std::to_string(snapshot.devices.size()));
  for (const Device& device : snapshot.devices) draw_device(snapshot, device, sheet);
  if (!snapshot.notes.empty()) page.blank();
  for (const std::string& note : snapshot.notes)
    page.paragraph(Line(tr("note  "), Style::kFaint), printable(note));
  return page.finish();
}

}  // namespace vram::show
