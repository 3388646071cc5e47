#include "base/relay.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "../temporary_directory.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"

namespace rekindle {
namespace {

Pipe new_pipe() { return make_pipe().value(); }

void write_all(const Fd& to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(to.get(), text.data(), text.size());
    ASSERT_GT(count, 0);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string read_all(const Fd& from) {
  std::string text;
  std::array<char, 65536> bytes;
  for (ssize_t count = 0; (count = ::read(from.get(), bytes.data(), bytes.size())) > 0;)
    text.append(bytes.data(), static_cast<std::size_t>(count));
  return text;
}

// relay() in a thread, as it is in a process of its own.
class Relayed {
 public:
  explicit Relayed(Fd to)
      : thread_([this, from = std::move(output_.read), to = std::move(to),
                 end = std::move(end_.read)]() mutable { relay(std::move(from), to, std::move(end)); }) {}

  Fd& output() { return output_.write; }
  Fd& end() { return end_.write; }
  void wait() { thread_.join(); }

 private:
  Pipe output_ = new_pipe(), end_ = new_pipe();
  std::thread thread_;
};

TEST(Relay, AnyBytes_ReachTheFileInOrder) {
  const TemporaryDirectory directory;
  const FilePath file(directory.path() / "out");
  auto opened = open_file(file, O_WRONLY | O_CREAT);
  ASSERT_TRUE(opened);
  std::string expected("no end of line\rprogress\r\0a zero byte", 36);
  for (int i = 0; i < 1000; ++i)
    expected += str("line ", i, std::string(static_cast<std::size_t>(i % 90), 'x'), "\n");
  expected += std::string(100000, 'y');  // a line that is longer than a usual pipe
  Relayed relayed(std::move(*opened));
  write_all(relayed.output(), expected);
  relayed.output().reset();
  relayed.wait();
  EXPECT_TRUE(read_text(file).value_or("") == expected);
}

// Takes the lines about dropped bytes out of `text`; returns the sum of their numbers.
std::uint64_t take_dropped(std::string& text) {
  const std::string words = "\nrekindle: ";
  std::uint64_t sum = 0;
  for (std::size_t at = 0; (at = text.find(words)) != std::string::npos;) {
    sum += std::stoull(text.substr(at + words.size()));
    text.erase(at, text.find('\n', at + 1) + 1 - at);
  }
  return sum;
}

// The pipe that nobody reads stands for a file on storage that hangs.
TEST(Relay, TheFileTakesNothing_WritersGoOnAndTheMissingBytesAreCounted) {
  Pipe file = new_pipe();
  Relayed relayed(std::move(file.write));
  constexpr std::size_t kPieces = 4096;
  const std::string piece(4096, 'x');
  for (std::size_t i = 0; i < kPieces; ++i) write_all(relayed.output(), piece);
  std::string got;
  std::thread storage_answers([&] { got = read_all(file.read); });
  relayed.output().reset();
  relayed.wait();
  storage_answers.join();
  const std::uint64_t dropped = take_dropped(got);
  EXPECT_GT(dropped, 0U);
  EXPECT_GT(got.size(), std::size_t{1} << 16);
  EXPECT_EQ(got.size() + dropped, kPieces * piece.size());
}

TEST(Relay, AskedToEnd_WritesWhatIsThereThoughTheOutputStaysOpen) {
  Pipe file = new_pipe();
  Relayed relayed(std::move(file.write));
  write_all(relayed.output(), "the last line\n");
  write_all(relayed.end(), "x");
  relayed.wait();
  EXPECT_EQ(read_all(file.read), "the last line\n");
}

TEST(Relay, ThePrintingProcessIsKilled_ItsChildrenStillPrint) {
  Pipe file = new_pipe();
  Relayed relayed(std::move(file.write));
  relayed.end().reset();
  write_all(relayed.output(), "of a child\n");
  relayed.output().reset();
  relayed.wait();
  EXPECT_EQ(read_all(file.read), "of a child\n");
}

}  // namespace
}  // namespace rekindle
