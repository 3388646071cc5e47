#include <charconv>
#include <cmath>
#include <system_error>

#include "base/text.hpp"
#include "model/models.hpp"

namespace rekindle::model {

Result<double> own_number(const ModelOptions& options, const std::string& name, double otherwise) {
  const auto given = options.own.find(name);
  if (given == options.own.end()) return otherwise;
  const std::string& text = given->second;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    return fail(ExitCode::kConfig, str("--model-options ", name, "=", text, " is not a number"),
                str("write it as in ", name, "=", otherwise));
  return number;
}

Status check_images(const ModelOptions& options, int smallest) {
  if (options.image_size < smallest)
    return fail(ExitCode::kConfig, str("images of ", options.image_size, " pixels are too small"),
                str("use --image-size ", smallest, " or more"));
  if (options.classes < 1)
    return fail(ExitCode::kConfig, str(options.classes, " classes"), "a model needs at least one");
  if (options.channels < 1)
    return fail(ExitCode::kConfig, str(options.channels, " channels"), "an image needs at least one");
  return {};
}

Status check_dropout(const ModelOptions& options) {
  // Written so that a NaN is refused too.
  if (const double dropout = options.dropout.value_or(0); !(dropout >= 0 && dropout < 1))
    return fail(ExitCode::kConfig, str("dropout ", dropout, " is out of range"),
                "use a number from 0 up to, not including, 1");
  return {};
}

Status check_no_dropout(const ModelOptions& options, const char* own) {
  if (options.dropout.value_or(0) == 0) return {};
  return fail(ExitCode::kConfig, str("dropout ", *options.dropout, " cannot be used: ", own),
              "use --dropout 0, or leave the option out");
}

}  // namespace rekindle::model
