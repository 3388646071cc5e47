#include "app/run_config.hpp"

#include <cstdio>
#include <sstream>
#include <stdexcept>

// toml++ 3.3 relies on assertions for text that is not TOML, and a build with NDEBUG even assumes that they
// hold. Here each assertion throws an exception in every build: see parse_toml().
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(expr) ((expr) ? void() : throw std::logic_error("the file is not TOML"))
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wterminate"  // some are in functions that may not throw
#endif
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#pragma pop_macro("NDEBUG")

#include "app/options.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/lists.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "protocol/job_reader.hpp"

namespace rekindle::app {

using protocol::Job;

// In a source, not a header: builds with and without CUDA share ccache's objects of all others.
const bool kCudaScripts = REKINDLE_CUDA_SCRIPTS, kCudaModels = REKINDLE_CUDA_MODELS;

namespace {

std::string parse_error_text(const toml::parse_error& error, const FilePath& file) {
  return str(file.string(), " line ", error.source().begin.line, ": ", error.description());
}

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr int kMostParts = 16;  // of a dotted key

// The position of the last quote of the string that begins at `begin`. toml++ reports a string without an
// end.
std::size_t end_of_string(const std::string& text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool is_long = text.compare(begin, three.size(), three) == 0;
  const std::string end = is_long ? three : std::string(1, quote);
  for (std::size_t i = begin + end.size(); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\')
      ++i;
    else if (text.compare(i, end.size(), end) == 0)
      return i + end.size() - 1;
  }
  return text.size();
}

// Whether a key or a table's name has more than kMostParts parts. toml++ limits the depth of lists and inline
// tables, but makes a nested table for each part of "a.a.a.a", and destroys these by recursion.
bool has_long_key(const std::string& text) {
  int parts = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      parts = 0;
    } else if (c == '.') {
      if (++parts > kMostParts) return true;
    } else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) {
      parts = 0;
    }
  }
  return false;
}

// The same document in ASCII. Non-ASCII characters become escapes in strings and are dropped from comments;
// elsewhere TOML allows none. toml++ 3.3 has incomplete tables of these characters, with undefined behaviour
// for the rest, so the parser must never get any.
Result<std::string> in_ascii(const std::string& text, const FilePath& file) {
  constexpr std::uint32_t kAscii = 0x80;
  std::string out;
  std::size_t end_of_part = 0;
  bool escaped = false;  // the next character is escaped by a backslash
  enum { kPlain, kEscapes, kLiteral, kComment } part = kPlain;
  for (std::size_t i = 0; i < text.size();) {
    if (i >= end_of_part) {
      const char c = text[i];
      part = c == '"' ? kEscapes : c == '\'' ? kLiteral : c == '#' ? kComment : kPlain;
      if (part == kComment)
        end_of_part = std::min(text.find('\n', i), text.size());
      else
        end_of_part = part == kPlain ? i + 1 : end_of_string(text, i) + 1;
    }
    const Utf8Character next = first_character(std::string_view(text).substr(i));
    if (next.bytes == 0) return fail(ExitCode::kConfig, str(file.string(), ": the file is not UTF-8"));
    if (next.code < kAscii) {
      out += text[i];
    } else if (part == kEscapes && !escaped) {
      char escape[16];
      std::snprintf(escape, sizeof escape, "\\U%08x", static_cast<unsigned>(next.code));
      out += escape;
    } else if (part != kComment) {
      return fail(ExitCode::kConfig, str(file.string(),
                                         ": non-ASCII letters are allowed only inside of "
                                         "\"double quotes\""));
    }
    escaped = part == kEscapes && next.code == '\\' && !escaped;
    i += next.bytes;
  }
  return out;
}

Result<toml::table> parse_toml(const std::string& text, const FilePath& file) {
  if (has_long_key(text))
    return fail(ExitCode::kConfig, str(file.string(), ": a key has more than ", kMostParts, " parts"));
  REKINDLE_TRY(const std::string ascii, in_ascii(text, file));
  try {
    return toml::parse(ascii);
  } catch (const toml::parse_error& error) {
    return fail(ExitCode::kConfig, parse_error_text(error, file));
  } catch (const std::logic_error& error) {  // an assertion of toml++
    return fail(ExitCode::kConfig, str(file.string(), ": ", error.what()));
  }
}

Result<toml::table> read_toml(const std::filesystem::path& file) {
  REKINDLE_TRY(const std::string text, read_text(file, kMostBytes));
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8, which editors on Windows write
  return parse_toml(text.starts_with(kMark) ? text.substr(kMark.size()) : text, file);
}

toml::table table_of(const nlohmann::json& object) {
  toml::table table;
  for (const auto& [key, value] : object.items()) {
    if (value.is_boolean()) {
      table.insert(key, value.get<bool>());
    } else if (value.is_number_float()) {
      table.insert(key, value.get<double>());
    } else if (value.is_number()) {
      table.insert(key, value.get<std::int64_t>());
    } else if (value.is_string()) {
      table.insert(key, value.get<std::string>());
    } else {
      toml::array list;  // of tables, or of strings
      for (const nlohmann::json& each : value) {
        if (each.is_string()) {
          list.push_back(each.get<std::string>());
        } else {
          list.push_back(table_of(each));
        }
      }
      table.insert(key, list);
    }
  }
  return table;
}

nlohmann::json json_of(const toml::table& table) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (auto value = node.value_exact<bool>()) {
      json[name] = *value;
    } else if (auto whole = node.value_exact<std::int64_t>()) {
      json[name] = *whole;
    } else if (auto real = node.value_exact<double>()) {
      json[name] = *real;
    } else if (auto words = node.value_exact<std::string>()) {
      json[name] = *words;
    } else if (const toml::array* list = node.as_array()) {
      json[name] = nlohmann::json::array();
      for (const toml::node& each : *list) {
        if (each.is_table()) json[name].push_back(json_of(*each.as_table()));
        if (auto words = each.value_exact<std::string>()) json[name].push_back(*words);
      }
    }
  }
  return json;
}

}  // namespace

std::string to_toml(const Job& job) {
  const toml::table table = table_of(job);
  constexpr auto kInAscii =
      toml::toml_formatter::default_flags &
      ~(toml::format_flags::allow_literal_strings | toml::format_flags::allow_unicode_strings);
  std::ostringstream out;
  out << "# Written by rekindle: the resolved job of this run. Change a run by the options of its command.\n"
      << toml::toml_formatter(table, kInAscii) << "\n";
  return out.str();
}

Result<Job> read_job(const FilePath& run_toml) {
  REKINDLE_TRY(const std::string text, read_text(run_toml, kMostBytes));
  return parse_job(text, run_toml);
}

Result<Job> parse_job(const std::string& text, const FilePath& run_toml) {
  const auto table = parse_toml(text, run_toml);
  if (!table) return fail(table.error().code, table.error().what, protocol::kMendRunToml);
  return protocol::job_of_run(json_of(*table), run_toml.string());
}

namespace {

std::string text_of(const toml::node& node) {
  if (const auto words = node.value_exact<std::string>()) return *words;
  if (const auto number = node.value_exact<double>())
    return nlohmann::json(*number).dump();  // the shortest text
  std::ostringstream value;
  node.visit([&](const auto& v) { value << v; });
  return value.str();
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> read_config_file(const std::filesystem::path& file) {
  const auto table = read_toml(file);
  if (!table) return fail(ExitCode::kConfig, table.error().what, "check --config");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [key, node] : *table) {
    const std::string name(key.str());
    const toml::array* list = node.as_array();
    const bool is_flat = list != nullptr && std::ranges::all_of(*list, [](const toml::node& each) {
                           return !each.is_table() && !each.is_array();
                         });
    if (node.is_table() || (list != nullptr && !is_flat)) {
      return fail(ExitCode::kConfig, str(file.string(), ": '", name, "' is a table, or a list of lists"),
                  "options are plain keys at the top of the file");
    }
    std::vector<std::string> texts;
    if (list == nullptr)
      texts.push_back(text_of(node));
    else
      for (const toml::node& each : *list) texts.push_back(text_of(each));
    entries.emplace_back(name, joined(texts, ","));  // as on the command line
  }
  return entries;
}

Result<std::string> own_build() { return build_of("/proc/self/exe"); }

Result<std::string> build_of(const std::filesystem::path& executable) {
  REKINDLE_TRY(const auto program, read_file(executable));
  return str(REKINDLE_VERSION "-", hex64(hash64(program)));
}

std::string built_with() { return REKINDLE_BUILT_WITH; }

}  // namespace rekindle::app
