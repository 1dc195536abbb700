// Routes requests by path. May be used from any thread after construction.
#pragma once

#include "serve/http.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vram::serve {

struct Route {
  // "/healthz"; one that ends in "{…}" takes any path below: "/api/v1/devices/{key}".
  std::string path;
  std::vector<std::string> parameters;  // that it understands; others are refused
  std::string about;                    // a short description
  // `rest` is what stood for {…}.
  std::function<Response(const Request& request, std::string_view rest)> answer;
  bool is_change = false;  // answers POST; otherwise GET and HEAD
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  // Responds with 404, 405, or 400 for an unknown parameter.
  [[nodiscard]] Response operator()(const Request& request) const;

 private:
  [[nodiscard]] Response not_found(std::string_view path) const;
  std::vector<Route> routes_;
};

// The page at "/": a document with its own Content-Security-Policy, whose script reads the API. It
// contains nothing about this machine.
[[nodiscard]] Route dashboard_route(std::string_view page);
// The page at "/api": a list of the endpoints. HTML without scripts; its links are relative.
[[nodiscard]] Route index_page(const std::vector<Route>& routes, std::string_view host);

}  // namespace vram::serve
