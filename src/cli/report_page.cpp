#include "cli/report_page.hpp"

#include "base/file.hpp"
#include "cli/recordings.hpp"
#include "explain/explain.hpp"
#include "explain/ranks/ranks.hpp"
#include "pages/html.hpp"
#include "plan/chain_of.hpp"
#include "plan/plan.hpp"
#include "show/plan/plan.hpp"
#include "show/report/ranks.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

namespace vram::cli {
namespace {

// What several budgets cost, if the recording shows the stages of a step: that of a dry run does.
void add_plan(const trace::Trace& trace, pages::PageMaker& maker) {
  auto found = plan::chain_of(trace, {});
  if (!found) return;
  const show::PlanSubject subject{.chain = std::move(found->chain),
                                  .recorded = std::move(found->step)};
  const auto plans = plan::sweep(subject.chain, plan::kSweptBudgets);
  if (plans) maker.add_document({"plan", show::sweep_json(subject, *plans)});
}

// Reads, explains and adds one recording; its events are released again.
Result<explain::Report> add_recording(const std::string& path, const PageRequest& request,
                                      pages::PageMaker& maker, const Console& console) {
  VRAM_TRY_ASSIGN(const auto trace, open_with_progress(path, request.reading, console));
  Progress progress(console, "explaining");
  progress.announce(trace.events.size());
  explain::ExplainOptions options;
  options.device = request.device;
  options.progress = [&progress](std::string_view stage, double share) {
    progress.update_stage(stage, share);
  };
  auto report = explain::explain(trace, options);
  if (!report) return fail(report.error().code, "{}: {}", path, report.error().message);
  if (!report->process.rank) report->process.rank = rank_in_name(path);
  maker.add(trace, *report);
  if (request.paths.size() == 1) add_plan(trace, maker);
  return report;
}

Result<> write_page(const pages::Page& page, const Output& output) {
  auto file = AtomicFile::create(output.path, replace_for(output.is_forced));
  if (!file) return tl::unexpected(with_force(std::move(file.error())));
  VRAM_TRY(pages::write_html(page, [&](std::string_view part) { return file->write(part); }));
  return file->commit();
}

std::string title_of(const std::vector<std::string>& paths) {
  const std::string first = std::filesystem::path(paths.front()).filename().string();
  return paths.size() == 1 ? first : fmt::format("{} and {} more", first, paths.size() - 1);
}

}  // namespace

Result<pages::Page> make_report_page(const PageRequest& request, const Console& console) {
  const bool is_one = request.paths.size() == 1;
  pages::PageMaker maker(is_one ? pages::PageKind::kReport : pages::PageKind::kRanks,
                         title_of(request.paths));
  std::vector<explain::Report> reports;
  for (const std::string& path : request.paths) {
    VRAM_TRY_ASSIGN(auto report, add_recording(path, request, maker, console));
    reports.push_back(std::move(report));
  }
  if (!is_one) {
    if (!explain::is_one_program(reports)) {
      return fail(Code::kBadInput,
                  "--html needs one recording, or the ranks of one program, found {} recordings of "
                  "different programs: name one, or compare two with vram diff A B --html",
                  reports.size());
    }
    maker.add_document({"ranks", show::ranks_json(explain::compare_ranks(reports))});
  }
  return maker.take();
}

Result<> write_report_page(const PageRequest& request, const Console& console) {
  VRAM_TRY_ASSIGN(const auto page, make_report_page(request, console));
  return write_page(page, request.output);
}

Result<> write_diff_page(const PageRequest& request, std::string comparison,
                         const Console& console) {
  pages::PageMaker maker(pages::PageKind::kDiff, title_of(request.paths));
  for (const std::string& path : request.paths)
    VRAM_TRY(add_recording(path, request, maker, console));
  maker.add_document({"diff", std::move(comparison)});
  return write_page(maker.take(), request.output);
}

}  // namespace vram::cli
