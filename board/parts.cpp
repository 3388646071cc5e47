#include "board/parts.hpp"

#include <algorithm>
#include <array>

namespace rekindle::board {
namespace {

// `text` with each `from` replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The value of an attribute of the tag that begins at `at`.
std::string_view attribute(std::string_view html, std::size_t at, std::string_view name) {
  const std::size_t end = html.find('>', at);
  const std::size_t begin = html.find(name, at);
  if (begin == std::string_view::npos || begin > end) return {};
  const std::size_t quote = begin + name.size();
  return html.substr(quote, html.find('"', quote) - quote);
}

}  // namespace

const Part* find_part(std::string_view name) {
  const auto all = parts();
  const auto found = std::ranges::find(all, name, &Part::name);
  return found == all.end() ? nullptr : &*found;
}

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "text/plain; charset=utf-8";
}

std::string page_in_one_file(const std::string& data) {
  const Part* const page = find_part("run.html");
  if (page == nullptr) return "";
  const std::string_view html = page->text;
  std::string made;
  std::size_t done = 0;
  // Each <link rel="stylesheet" href="X"> and <script src="X"></script> becomes its content.
  constexpr std::string_view kLink = "<link rel=\"stylesheet\"", kScript = "<script src=\"",
                             kScriptEnd = "</script>";
  for (;;) {
    const std::size_t link = html.find(kLink, done), script = html.find(kScript, done);
    const std::size_t next = std::min(link, script);
    if (next == std::string_view::npos) break;
    const bool is_script = next == script;
    const Part* const part = find_part(attribute(html, next, is_script ? "src=\"" : "href=\""));
    std::size_t end = html.find('>', next) + 1;
    if (is_script) end = html.find(kScriptEnd, next) + kScriptEnd.size();
    made += html.substr(done, next - done);
    if (part != nullptr)
      made += is_script
                  ? "<script>" + replaced(std::string(part->text), "</script", "<\\/script") + "</script>"
                  : "<style>" + std::string(part->text) + "</style>";
    done = end;
  }
  made += html.substr(done);
  // In JSON, < may be written so; then no text ends the element.
  const std::string element =
      "<script type=\"application/json\" id=\"data\">" + replaced(data, "<", "\\u003c") + "</script>\n";
  // Before the first script, which looks for it.
  const std::size_t first = made.find("<script>");
  return first == std::string::npos ? made + element : made.insert(first, element);
}

}  // namespace rekindle::board
