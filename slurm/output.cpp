#include "slurm/output.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

namespace rekindle::slurm {
namespace {

// %a of a job that is not a job array (NO_VAL of slurm.h).
constexpr const char* kNoTask = "4294967294";

std::optional<std::string> value_of(char pattern, const SubmittedJob& job) {
  switch (pattern) {
    case 'A':
      return job.id;
    case 'j':
    case 'J':
      return job.array ? std::nullopt : std::optional(job.id);
    case 'a':
      return job.array ? std::nullopt : std::optional<std::string>(kNoTask);
    case 'x':
      return job.name;
    case 'u':
      return job.user;
    case 's':
      return "batch";
    case 't':
    case 'n':
      return "0";
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string expand_letters(const std::string& text, const ValueOf& value_of) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t letter = i + 1;
    while (text[i] == '%' && letter < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[letter])) != 0)
      ++letter;
    const std::size_t width = std::strtoul(text.substr(i + 1, letter - i - 1).c_str(), nullptr, 10);
    const auto value = text[i] == '%' && letter < text.size() ? value_of(text[letter], width) : std::nullopt;
    if (!value) {
      out += text[i++];
      continue;
    }
    const std::size_t padded = std::min(width, kWidestNumber);
    if (is_number(*value) && value->size() < padded) out += std::string(padded - value->size(), '0');
    out += *value;
    i = letter + 1;
  }
  return out;
}

std::string expand_output(const std::string& pattern, const SubmittedJob& job) {
  if (pattern.find('\\') != std::string::npos) return pattern;  // a backslash disables all patterns
  return expand_letters(pattern, [&job](char letter, std::size_t) { return value_of(letter, job); });
}

}  // namespace rekindle::slurm
