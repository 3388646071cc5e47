#include "run/stop_request.hpp"

#include <tuple>

#include "base/files.hpp"

namespace rekindle::run {

void forget_stop_request(const Layout& layout, const std::string& old) {
  const auto request = read_text(layout.stop_request(), kMostOfANote);
  const bool must_go = request ? *request == old : request.error().code == ExitCode::kConfig;
  if (must_go) std::ignore = remove_file(layout.stop_request());
}

}  // namespace rekindle::run
