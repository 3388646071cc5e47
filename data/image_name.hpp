// What the ending of a file's name says. Internal to data/.
#pragma once

#include <string>

namespace rekindle::data {

enum class NameKind { kImage, kOtherImage, kNone };  // kOtherImage: of a format that is not read

NameKind kind_of(const std::string& name);

}  // namespace rekindle::data
