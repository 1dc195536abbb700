// Which path is answered by whom. Any thread, once it is made.
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
  std::string about;                    // one line for people
  // `rest` is what stood for {…}.
  std::function<Response(const Request& request, std::string_view rest)> answer;
};

class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }
  // 404, 405, 400 for a parameter that the route does not know.
  [[nodiscard]] Response operator()(const Request& request) const;

 private:
  [[nodiscard]] Response not_found(std::string_view path) const;
  std::vector<Route> routes_;
};

// The page at "/": what there is, for a person with a browser. HTML without a script.
[[nodiscard]] Route index_page(const std::vector<Route>& routes, std::string_view host);

}  // namespace vram::serve
