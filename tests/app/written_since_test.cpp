#include "app/written_since.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "../temporary_directory.hpp"

namespace rekindle::app {
namespace {

namespace fs = std::filesystem;

class WrittenSince : public testing::Test {
 protected:
  // The times of file systems have ticks: the file is written until it has a later one.
  timespec write(const std::string& name) {
    struct stat info {};
    do {
      fs::create_directories((data() / name).parent_path());
      std::ofstream(data() / name) << name;
      ::stat((data() / name).c_str(), &info);
    } while (info.st_ctim.tv_sec == last_.tv_sec && info.st_ctim.tv_nsec == last_.tv_nsec);
    return last_ = info.st_ctim;
  }
  fs::path data() const { return scratch_.path() / "data"; }

 private:
  TemporaryDirectory scratch_;
  timespec last_{};
};

TEST_F(WrittenSince, ChangedFilesAreNamed_AlsoIfTheirTimeIsPutBack) {
  write("MNIST/raw/train-images");
  const timespec since = write("MNIST/raw/train-labels");
  EXPECT_EQ(written_since(data(), since), "");
  const auto before = fs::last_write_time(data() / "MNIST/raw/train-images");
  write("MNIST/raw/train-images");
  fs::last_write_time(data() / "MNIST/raw/train-images", before);
  write("MNIST/.hidden");
  write("a/b/c/deep");
  EXPECT_EQ(written_since(data(), since), "MNIST/raw/train-images");
  write("b");
  write("c");
  EXPECT_EQ(written_since(data(), since), "MNIST/raw/train-images, b and 1 more");
}

TEST_F(WrittenSince, DataThatAreOneFileOrNotThere) {
  const timespec since = write("text.txt");
  EXPECT_EQ(written_since(data() / "text.txt", since), "");
  write("text.txt");
  EXPECT_EQ(written_since(data() / "text.txt", since), "text.txt");
  EXPECT_EQ(written_since(data() / "none", since), "");
}

}  // namespace
}  // namespace rekindle::app
