#include "serve/router.hpp"

#include "base/text.hpp"
#include "base/xml.hpp"
#include "serve/http.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace vram::serve {
namespace {

constexpr std::string_view kHtmlType = "text/html; charset=utf-8";
constexpr size_t kShown = 100;  // of a text that the client sent

std::string shown(std::string_view text) { return printable(text.substr(0, kShown)); }

// What stands for {…}, empty for a route without it; nothing where the path is another's.
std::optional<std::string_view> match(std::string_view pattern, std::string_view path) {
  const size_t brace = pattern.find('{');
  if (brace == std::string_view::npos)
    return path == pattern ? std::optional<std::string_view>("") : std::nullopt;
  if (!path.starts_with(pattern.substr(0, brace)) || path.size() == brace) return std::nullopt;
  return path.substr(brace);
}

std::string_view methods_of(const Route& route) { return route.is_change ? "POST" : "GET, HEAD"; }

bool answers(const Route& route, Method method) {
  if (route.is_change) return method == Method::kPost;
  return method == Method::kGet || method == Method::kHead;
}

// Of a path that some routes have, all with other methods.
Response not_allowed(const std::vector<std::string_view>& methods) {
  const std::string allowed = fmt::format("{}", fmt::join(methods, ", "));
  Response response = error_response(405, fmt::format("this path answers {}", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

std::optional<Response> unknown_parameter(const Route& route, const Query& query) {
  for (const auto& [name, value] : query) {
    if (std::ranges::find(route.parameters, name) != route.parameters.end()) continue;
    const std::string known = route.parameters.empty()
                                  ? "it takes none"
                                  : fmt::format("it takes {}", fmt::join(route.parameters, ", "));
    return error_response(
        400, fmt::format("{} has no parameter '{}': {}", route.path, shown(name), known));
  }
  return std::nullopt;
}

// Of a path, from "/api", so that it holds below any path of a proxy.
std::string_view link_of(std::string_view path) { return path == "/" ? "." : path.substr(1); }

}  // namespace

Response Router::not_found(std::string_view path) const {
  std::vector<std::string_view> known;
  for (const Route& route : routes_) known.emplace_back(route.path);
  return error_response(
      404, fmt::format("there is no {}; there are {}", shown(path), fmt::join(known, ", ")));
}

Response Router::operator()(const Request& request) const {
  std::vector<std::string_view> methods;
  for (const Route& route : routes_) {
    const auto rest = match(route.path, request.path);
    if (!rest) continue;
    if (!answers(route, request.method)) {
      methods.push_back(methods_of(route));
      continue;
    }
    if (auto refused = unknown_parameter(route, request.query)) return *std::move(refused);
    return route.answer(request, *rest);
  }
  return methods.empty() ? not_found(request.path) : not_allowed(methods);
}

Route dashboard_route(std::string_view page) {
  const auto body = std::make_shared<Body>(std::string(page));
  return {"/", {}, "the dashboard, for browsers", [body](const Request&, std::string_view) {
            return Response{.status = 200,
                            .content_type = std::string(kHtmlType),
                            .body = body,
                            .headers = {{"Content-Security-Policy", "frame-ancestors 'self'"},
                                        {"Cross-Origin-Opener-Policy", "same-origin"},
                                        {"Referrer-Policy", "no-referrer"}}};
          }};
}

Route index_page(const std::vector<Route>& routes, std::string_view host) {
  std::string rows;
  for (const Route& route : routes) {
    const bool is_link = !route.is_change && route.path.find('{') == std::string::npos;
    const std::string name = xml_text(route.path);
    const std::string parameters =
        route.parameters.empty() ? "" : fmt::format("?{}=", fmt::join(route.parameters, "=&amp;"));
    rows += fmt::format("<tr><td>{}{}{}</td><td>{}</td></tr>\n", route.is_change ? "POST " : "",
                        is_link ? fmt::format("<a href=\"{}\">{}</a>", link_of(name), name) : name,
                        parameters, xml_text(route.about));
  }
  const std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vram on "
      "{0}</title>\n"
      "<style>body{{font:16px/1.5 sans-serif;margin:2em auto;max-width:60em;padding:0 1em}}"
      "td{{padding:.2em 1em .2em 0;vertical-align:top}}</style></head>\n"
      "<body><h1>vram serve on {0}</h1>\n<table>\n{1}</table></body></html>\n",
      xml_text(host), rows);
  const auto body = std::make_shared<Body>(page);
  return {"/api", {}, "this page", [body](const Request&, std::string_view) -> Response {
            return {.status = 200,
                    .content_type = std::string(kHtmlType),
                    .body = body,
                    .headers = {{"Content-Security-Policy",
                                 "default-src 'none'; style-src 'unsafe-inline'; "
                                 "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}}};
          }};
}

}  // namespace vram::serve
