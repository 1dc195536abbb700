#include "serve/request_parser.hpp"

namespace vram::serve {

RequestParser::RequestParser(const ServerLimits& limits) {
  header_limit(limits.header_bytes);
  body_limit(limits.body_bytes);
}

void RequestParser::on_request_impl(Verb method, Text, Text target, int version, ErrorCode&) {
  method_ = method;
  target_ = std::string(target);
  is_http11_ = version >= 11;
}

void RequestParser::on_field_impl(Field field, Text, Text value, ErrorCode&) {
  if (is_header_done()) return;  // behind the body
  if (field == Field::transfer_encoding) {
    ++encodings_;
    is_chunked_ = boost::beast::iequals(value, "chunked");
  }
  if (field == Field::host) ++headers_.hosts;
  const auto keep_first = [&](Field wanted, std::string& kept) {
    if (field == wanted && kept.empty()) kept = std::string(value);
  };
  keep_first(Field::host, headers_.host);
  keep_first(Field::accept, headers_.accept);
  keep_first(Field::accept_encoding, headers_.accept_encoding);
  keep_first(Field::authorization, headers_.authorization);
}

}  // namespace vram::serve
