// An image for --container, and stand-ins for what starts it (tests/process/containers).
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "../needs.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {

class Image {
 public:
  // From here on, the stand-ins come first in the PATH of this process. `content`: what is in the image, in
  // addition to /usr; with colons between them.
  Image(const std::string& source, const fs::path& where, const std::string& content = "") : path_(where) {
    fs::create_directories(path_);
    std::ofstream(path_ / "marker") << "inside";
    ::setenv("PATH",
             str((fs::path(source) / "tests/process/containers").string(), ":", std::getenv("PATH")).c_str(),
             1);
    ::setenv("STAND_IN_CONTENT", content.c_str(), 1);
    ::unsetenv("STAND_IN_BINDS");
  }
  // From here on, the image has `folder` at `place`, too. What is mounted there hides it.
  static void add(const fs::path& folder, const fs::path& place) {
    const std::string content = environment_variable("STAND_IN_CONTENT");
    ::setenv("STAND_IN_CONTENT",
             str(content, content.empty() ? "" : ":", folder.string(), "=", place.string()).c_str(), 1);
  }
  // From here on, nothing is mounted: the site does not let its users do that.
  static void mount_nothing() { ::setenv("STAND_IN_BINDS", "no", 1); }
  // Empty: bwrap makes containers here.
  static std::string why_none() {
    const Outcome made =
        Program({"/usr/bin/env", "bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"}).wait();
    return made.exit_code == 0 ? "" : "needs bwrap and user namespaces (tools/packages-test.txt)";
  }
  // Without bwrap nobody knows whether the machine would give it namespaces.
  static Needs needs() { return fs::exists("/usr/bin/bwrap") ? Needs::kMachine : Needs::kSetup; }
  const fs::path& path() const { return path_; }
  // How often a command that contains `word` was started in it.
  int starts(const std::string& word) const {
    std::ifstream file(path_.string() + ".starts");
    int count = 0;
    for (std::string line; std::getline(file, line);) count += line.find(word) != std::string::npos ? 1 : 0;
    return count;
  }

 private:
  const fs::path path_;
};

}  // namespace rekindle::process_test
