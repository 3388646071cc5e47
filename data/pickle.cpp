#include "data/pickle.hpp"

#include "base/text.hpp"

namespace rekindle::data {

tl::unexpected<Error> Pickle::wrong(std::string_view key, std::string_view wanted) const {
  return fail(ExitCode::kConfig, str(source_, ": '", key, "' is missing or is not ", wanted),
              "get the file again");
}

Result<const Pickle::Value*> Pickle::find(std::string_view key) const {
  const std::vector<Handle>& items = at(root_).items;
  const Value* found = nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (at(items[i]).kind == Kind::kText && at(items[i]).text == key) found = &at(items[i + 1]);
  }
  if (found == nullptr) return wrong(key, "there");
  return found;
}

Result<std::vector<std::int64_t>> Pickle::numbers(std::string_view key) const {
  REKINDLE_TRY(const Value* list, find(key));
  std::vector<std::int64_t> numbers;
  for (const Handle item : list->items) {
    if (at(item).kind != Kind::kNumber) return wrong(key, "a list of numbers");
    numbers.push_back(at(item).number);
  }
  if (list->kind != Kind::kList) return wrong(key, "a list of numbers");
  return numbers;
}

Result<std::vector<std::string>> Pickle::texts(std::string_view key) const {
  REKINDLE_TRY(const Value* list, find(key));
  std::vector<std::string> texts;
  for (const Handle item : list->items) {
    if (at(item).kind != Kind::kText) return wrong(key, "a list of texts");
    texts.emplace_back(at(item).text);
  }
  if (list->kind != Kind::kList) return wrong(key, "a list of texts");
  return texts;
}

Result<PickledArray> Pickle::array(std::string_view key) const {
  constexpr const char* kWanted = "an array of bytes with two dimensions";
  REKINDLE_TRY(const Value* array, find(key));
  if (array->kind != Kind::kArray || array->items.size() != 4) return wrong(key, kWanted);
  const Value &shape = at(array->items[0]), &dtype = at(array->items[1]), &order = at(array->items[2]),
              &content = at(array->items[3]);
  if (shape.kind != Kind::kTuple || shape.items.size() != 2 || dtype.kind != Kind::kDtype ||
      dtype.text != "u1" || order.kind != Kind::kNumber || content.kind != Kind::kText)
    return wrong(key, kWanted);
  const std::int64_t rows = at(shape.items[0]).number, columns = at(shape.items[1]).number;
  const auto bytes = static_cast<std::int64_t>(content.text.size());
  if (rows < 1 || columns < 1 || columns > bytes || rows != bytes / columns || bytes % columns != 0)
    return wrong(key, "an array whose bytes match its shape");
  return PickledArray{static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), order.number != 0,
                      content.text};
}

}  // namespace rekindle::data
