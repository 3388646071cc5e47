#include "app/run_config.hpp"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
#include <sstream>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::app {

using protocol::Job;

namespace {

std::string parse_error_text(const toml::parse_error& error, const FilePath& file) {
  return str(file.string(), " line ", error.source().begin.line, ": ", error.description());
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
  std::ostringstream out;
  out << "# Written by rekindle: the resolved job of this run. Change a run by the options of its command.\n"
      << table << "\n";
  return out.str();
}

Result<Job> read_job(const FilePath& run_toml) {
  REKINDLE_TRY(const std::string text, read_text(run_toml));
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return fail(ExitCode::kConfig, parse_error_text(parsed.error(), run_toml));
  nlohmann::json json = Job{};
  json.update(json_of(parsed.table()));
  try {
    return json.get<Job>();
  } catch (const nlohmann::json::exception& error) {
    return fail(ExitCode::kConfig, str(run_toml.string(), ": ", error.what()));
  }
}

Result<std::vector<std::pair<std::string, std::string>>> read_config_file(const std::filesystem::path& file) {
  auto text = read_text(file);
  if (!text) return fail(ExitCode::kConfig, text.error().what, "check --config");
  const toml::parse_result parsed = toml::parse(*text);
  if (!parsed) return fail(ExitCode::kConfig, parse_error_text(parsed.error(), file));
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [key, node] : parsed.table()) {
    const std::string name(key.str());
    if (node.is_table() || node.is_array()) {
      return fail(ExitCode::kConfig, str(file.string(), ": '", name, "' is a table or list"),
                  "options are plain keys at the top of the file");
    }
    if (auto words = node.value_exact<std::string>()) {
      entries.emplace_back(name, *words);
    } else {
      std::ostringstream value;
      node.visit([&](const auto& v) { value << v; });
      entries.emplace_back(name, value.str());
    }
  }
  return entries;
}

Result<std::string> own_build() { return build_of(own_executable()); }

Result<std::string> build_of(const std::filesystem::path& executable) {
  REKINDLE_TRY(const auto program, read_file(executable));
  return str("0.1.0-", hex64(hash64(program)));
}

}  // namespace rekindle::app
