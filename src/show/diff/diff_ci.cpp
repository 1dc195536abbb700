// The formats of CI systems: GitHub's annotations and job summary, JUnit XML, SARIF.
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/xml.hpp"
#include "show/diff/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace vram::show {
namespace {

using explain::DeviceChange;
using explain::Diff;
using explain::Regression;
using explain::SiteChange;

std::string replaced(std::string_view text,
                     std::initializer_list<std::pair<char, std::string_view>> escapes) {
  std::string result;
  for (const char c : text) {
    const auto* const found = std::ranges::find(escapes, c, [](const auto& e) { return e.first; });
    if (found == escapes.end())
      result += c;
    else
      result += found->second;
  }
  return result;
}

// Of a workflow command, what follows "::".
std::string github_text(std::string_view text) {
  return replaced(printable(text), {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}
std::string github_property(std::string_view text) {
  return replaced(printable(text),
                  {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}});
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// A code span: text without links, mentions (@all), references and markup, whatever it contains.
std::string markdown_code(std::string_view text) {
  const std::string shown = printable(text);
  size_t longest = 0;
  size_t length = 0;
  for (const char c : shown) {
    length = c == '`' ? length + 1 : 0;
    longest = std::max(longest, length);
  }
  const std::string fence(longest + 1, '`');
  const char* const space = longest > 0 ? " " : "";
  return fence + space + (shown.empty() ? " " : shown) + space + fence;
}

// In a cell of a table, which splits its rows before it reads code spans.
std::string markdown_cell(std::string_view text) {
  return replaced(markdown_code(text), {{'|', "\\|"}});
}

std::string place_properties(const explain::Frame* place) {
  if (place == nullptr) return "";
  return fmt::format("file={},line={},", github_property(place->file), place->line);
}

std::string headline(const Diff& diff) {
  if (!diff.limit) return "GPU memory compared";
  if (diff.has_regression()) return "GPU memory: regression";
  const std::string limit = limit_text(*diff.limit);
  return unjudged_devices(diff).empty()
             ? fmt::format("GPU memory: within the limit of {}", limit)
             : fmt::format("GPU memory: the limit of {} cannot be judged", limit);
}

void add_site_rows(const DeviceChange& change, std::string& text) {
  size_t rows = 0;
  for (const SiteChange& site : change.sites) {
    if (kind_of(site) == explain::ChangeKind::kSame || rows == kMaxHotspots) continue;
    if (rows++ == 0) {
      text += fmt::format(
          "\nWhat changed at the peak of {}:\n\n| | change | A | B | site "
          "|\n|---|--:|--:|--:|---|\n",
          explain::device_text(change.latest()));
    }
    text += fmt::format("| {} | {} | {} | {} | {} |\n", identifier(kind_of(site)),
                        format_bytes_signed(explain::growth(site.a_bytes(), site.b_bytes())),
                        format_bytes(site.a_bytes()), format_bytes(site.b_bytes()),
                        markdown_cell(site.latest().name));
  }
}

}  // namespace

std::string without_github_commands(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    // The runner skips all white space of Unicode, which is more than the blanks of ASCII.
    const auto is_graphic = [](char c) { return c > ' ' && c < '\x7F'; };
    const auto begin = static_cast<size_t>(std::ranges::find_if(line, is_graphic) - line.begin());
    result += line.substr(0, begin);
    if (line.substr(begin).starts_with("::")) result += "\\";
    result += line.substr(begin);
    text.remove_prefix(end);
  }
  replace_all(result, "##[", "#\\#[");
  return result;
}

std::string diff_annotations(const Diff& diff) {
  std::string text;
  for (const DeviceChange& change : diff.devices) {
    if (!change.is_regression() && !diff.is_unjudged(change)) continue;
    text += fmt::format("::error title=GPU memory::{}\n", github_text(sentence(change)));
  }
  const std::string_view level = diff.has_regression() ? "error" : "notice";
  for (const Hotspot& spot : hotspots(diff)) {
    text += fmt::format("::{} {}title=GPU memory::{}\n", level,
                        place_properties(place_in_repository(spot.site->latest())),
                        github_text(sentence(spot)));
  }
  return text;
}

std::string diff_markdown(const Diff& diff) {
  std::string text = fmt::format("### {}\n\nA: {}, B: {}\n\n", headline(diff),
                                 markdown_code(diff.a_name), markdown_code(diff.b_name));
  text += "| device | A | B | change | | limit | |\n|---|--:|--:|--:|--:|--:|---|\n";
  for (const DeviceChange& change : diff.devices) {
    const uint64_t a = change.a_bytes();
    const uint64_t b = change.b_bytes();
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", explain::device_text(change.latest()),
        change.a ? format_bytes(a) : "-", change.b ? format_bytes(b) : "-",
        format_bytes_signed(explain::growth(a, b)), relative_growth(a, b),
        change.limit_bytes ? format_bytes(*change.limit_bytes) : "-", phrase(change.regression));
  }
  for (const std::string& remark : diff.incomplete)
    text += fmt::format("\nIncomplete: {}\n", markdown_code(remark));
  if (!diff.devices.empty()) add_site_rows(diff.devices.front(), text);
  return text;
}

std::string diff_junit(const Diff& diff) {
  const auto failures = std::ranges::count_if(diff.devices, &DeviceChange::is_regression);
  std::string text(kJunitStart);
  text += fmt::format(
      "<testsuites>\n  <testsuite name=\"vram diff\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"0\">\n",
      diff.devices.size(), failures, unjudged_devices(diff).size());
  for (const DeviceChange& change : diff.devices) {
    const std::string name = xml_text(explain::device_text(change.latest()));
    text += fmt::format("    <testcase classname=\"vram.diff\" name=\"peak of {}\">\n", name);
    const std::string detail = xml_text(sentence(change));
    std::string places;
    for (const SiteChange& site : change.sites) {
      if (kind_of(site) == explain::ChangeKind::kSame) continue;
      places += fmt::format("{} {} {}\n", identifier(kind_of(site)),
                            format_bytes_signed(explain::growth(site.a_bytes(), site.b_bytes())),
                            xml_text(site.latest().name));
      if (static_cast<size_t>(std::ranges::count(places, '\n')) == kMaxHotspots) break;
    }
    if (change.is_regression())
      text += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n",
                          identifier(change.regression), detail, places);
    else if (diff.is_unjudged(change))
      text += fmt::format("      <error message=\"{}\">{}</error>\n", detail, places);
    else
      text += fmt::format("      <system-out>{}\n{}</system-out>\n", detail, places);
    text += "    </testcase>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

namespace {

// The characters of a path that a URI reference does not allow, as %XX.
std::string uri(std::string_view path) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/+@";
  std::string text;
  for (const char c : path) {
    if (kAllowed.find(c) != std::string_view::npos)
      text += c;
    else
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

Json sarif_location(const explain::PeakSite& site) {
  const explain::Frame* const place = place_in_repository(site);
  if (place == nullptr)
    return {{"logicalLocations", Json::array({{{"fullyQualifiedName", json_text(site.name)}}})}};
  return {{"physicalLocation",
           {{"artifactLocation", {{"uri", uri(place->file)}, {"uriBaseId", "%SRCROOT%"}}},
            {"region", {{"startLine", place->line}}}}}};
}

Json sarif_rule(std::string_view id, std::string_view text) {
  return {{"id", id}, {"shortDescription", {{"text", text}}}};
}

std::string_view sarif_rule_of(const DeviceChange& change) {
  if (!change.b) return "missing";
  return change.regression == Regression::kOom ? "out-of-memory" : "peak";
}

Json sarif_results(const Diff& diff) {
  Json results = Json::array();
  const auto largest_site = [](const DeviceChange& change) {
    const auto grew = [](const SiteChange& site) { return site.b_bytes() > site.a_bytes(); };
    const auto found = std::ranges::find_if(change.sites, grew);
    return found == change.sites.end() ? nullptr : &*found;
  };
  for (const DeviceChange& change : diff.devices) {
    if (!change.is_regression() && !diff.is_unjudged(change)) continue;
    Json result = {{"ruleId", sarif_rule_of(change)},
                   {"level", "error"},
                   {"message", {{"text", json_text(sentence(change))}}}};
    if (const SiteChange* site = largest_site(change))
      result["locations"] = Json::array({sarif_location(site->latest())});
    result["partialFingerprints"] = {{"device/v1", explain::device_text(change.latest())}};
    results.push_back(std::move(result));
  }
  for (const Hotspot& spot : hotspots(diff)) {
    const explain::PeakSite& site = spot.site->latest();
    const std::string place = site.calls.empty() ? site.name : site.calls.front().function;
    results.push_back({{"ruleId", "site"},
                       {"level", diff.has_regression() ? "warning" : "note"},
                       {"message", {{"text", json_text(sentence(spot))}}},
                       {"locations", Json::array({sarif_location(site)})},
                       {"partialFingerprints", {{"site/v1", json_text(place)}}}});
  }
  return results;
}

}  // namespace

std::string diff_sarif(const Diff& diff, std::string_view version) {
  const Json rules =
      Json::array({sarif_rule("peak", "The peak of GPU memory grew by more than the limit"),
                   sarif_rule("out-of-memory", "Only the new recording ran out of memory"),
                   sarif_rule("missing", "The new recording lacks a device"),
                   sarif_rule("site", "A place in the program holds more memory at the peak")});
  const Json run = {{"tool",
                     {{"driver",
                       {{"name", "vram"},
                        {"version", version},
                        {"informationUri", "https://github.com/vram-dev/vram"},
                        {"rules", rules}}}}},
                    {"results", sarif_results(diff)}};
  const Json document = {{"properties", {{"writer", "vram diff"}}},
                         {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                         {"version", "2.1.0"},
                         {"runs", Json::array({run})}};
  return document.dump(2) + "\n";
}

}  // namespace vram::show
