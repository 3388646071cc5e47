// The hashes of an image folder's files: when they are noted, and which file with hashes is used.
#include "data/folder_contents.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../needs.hpp"
#include "folder_contents_fixture.hpp"

namespace rekindle::data {
namespace {

// One bad read of a good file must not make every later run refuse the file.
TEST_F(FolderContentsTest, ACorruptFileThatIsRestored_IsUsed_AndItsLaterChangesAreNoticed) {
  const std::string good = get(image()), bad(good.size(), 'x');
  put(image(), bad);
  {
    const auto dataset = opened();
    refused(read(*dataset), "neither a JPEG");
    put(image(), good);
    EXPECT_TRUE(read(*dataset));
    put(image(), bad);
    refused(read(*dataset), "another content");
    put(image(), good);
  }
  EXPECT_TRUE(read(*opened()));
  put(image(), bad);
  refused(read(*opened()), "another content");
  refused(read(*opened(true)), "another content");
}

// A run with --skip-corrupt has trained with the next image: another content would be another sample.
TEST_F(FolderContentsTest, ASkippedFileThatIsRestored_IsNoticedByRunsThatSkip_AndUsedByOthers) {
  const std::string good = get(image());
  put(image(), std::string(good.size(), 'x'));
  EXPECT_TRUE(read(*opened(true)));
  put(image(), good);
  refused(read(*opened(true)), "another content");
  EXPECT_TRUE(read(*opened()));
  refused(read(*opened(true)), "another content");
}

TEST_F(FolderContentsTest, AFileThatIsAway_IsAnErrorThatMayPass) {
  const auto dataset = opened();
  fs::rename(folder(), scratch_.path / "away");
  const Status away = read(*dataset);
  refused(away, image().string());
  EXPECT_EQ(away.error().kind, ErrorKind::kSystem);
  EXPECT_EQ(away.error().code, ExitCode::kConfig);
  fs::rename(scratch_.path / "away", folder());
  EXPECT_TRUE(read(*dataset));
}

// Whoever may write to the data folder must not make a trainer wait, or write to another file.
TEST_F(FolderContentsTest, APipeOrALinkInPlaceOfTheHashes_IsIgnored) {
  put(theirs(), "theirs");
  ASSERT_EQ(::mkfifo(hashes().c_str(), 0666), 0);
  is_ignored("a pipe without a reader");
  const int reader = ::open(hashes().c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  is_ignored("a pipe with a reader");
  char byte = 0;
  EXPECT_EQ(::read(reader, &byte, 1), 0) << "hashes were written to the pipe";
  ::close(reader);
  fs::remove(hashes());
  fs::create_symlink(theirs(), hashes());
  is_ignored("a symbolic link");
  fs::remove(hashes());
  fs::create_hard_link(theirs(), hashes());
  is_ignored("a hard link");
  fs::remove(hashes());
  fs::remove_all(home() / ".cache");
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(get(hashes()).size(), 64U) << "without an obstacle the hashes are kept";
}

TEST_F(FolderContentsTest, AFileWithHashesThatOthersMayWrite_IsIgnored) {
  EXPECT_TRUE(read(*opened()));
  // A file with the hash of another content. Read by its owner alone, the file counts.
  const std::string good = get(image()), known = get(hashes());
  ASSERT_EQ(known.size(), 64U);
  put(image(), get(folder() / "train/n00000001/images/n00000001_0.JPEG").substr(0, good.size()));
  fs::resize_file(image(), good.size());
  refused(read(*opened()), "another content");
  ASSERT_EQ(::chmod(hashes().c_str(), 0666), 0);
  const Status unknown = read(*opened());
  EXPECT_TRUE(unknown || unknown.error().line().find("another content") == std::string::npos);
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  ASSERT_EQ(::chmod(hashes().c_str(), 0644), 0);
  ASSERT_EQ(::chown(hashes().c_str(), 12345, 12345), 0);
  const Status foreign = read(*opened());
  EXPECT_TRUE(foreign || foreign.error().line().find("another content") == std::string::npos);
  EXPECT_EQ(get(hashes()), known);
}

// Trainers that read all images for many epochs must not each write a record for each image.
TEST_F(FolderContentsTest, WhatAnotherProcessHasNoted_IsNotNotedAgain) {
  {
    const auto first = opened(), second = opened();
    EXPECT_TRUE(read(*first, 0));  // noted at once, the next ones later
    EXPECT_TRUE(read(*second, 1));
    EXPECT_TRUE(read(*second, 0));
    EXPECT_TRUE(read(*first, 1));
    EXPECT_TRUE(read(*first, 2));
  }
  EXPECT_EQ(get(hashes()).size(), 32U + 3 * 32U);
}

TEST_F(FolderContentsTest, AfterAnotherListing_TheHashesOfTheFirstOneStillCount) {
  EXPECT_TRUE(read(*opened()));
  const fs::path stray = folder() / "train/n00000000/images/stray.JPEG";
  put(stray, get(image()));
  EXPECT_TRUE(read(*opened(), 5));
  fs::remove(stray);
  EXPECT_EQ(get(hashes()).size(), 32U + 2 * 32U);
  change(image());
  refused(read(*opened()), "another content");
}

TEST_F(FolderContentsTest, AFileWithoutHashes_IsLeftAlone) {
  put(hashes(), "something else, and longer than a header");
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(get(hashes()), "something else, and longer than a header");
  EXPECT_EQ(notes_at_home(), 1U);
}

// As two users in a group do, who would look at every file again at each start.
TEST_F(FolderContentsTest, TheIndexOfAnotherUser_IsNotReplaced) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  age(folder());
  fs::last_write_time(folder() / "train", fs::last_write_time(folder()) - std::chrono::hours(1));
  opened();
  const fs::path index = note_beside(folder(), kIndexNote).path();
  ASSERT_EQ(::chown(index.c_str(), 12345, 12345), 0);
  put(folder() / "train/n00000000/images/more.JPEG", get(image()));
  age(folder());
  fs::last_write_time(folder() / "train", fs::last_write_time(folder()) - std::chrono::hours(1));
  opened();
  struct stat info {};
  ASSERT_EQ(::stat(index.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12345U);
  EXPECT_TRUE(read_index(folder())) << "this user's own index is in the cache folder";
}

TEST_F(FolderContentsTest, WhereTheFileIsAnotherUsers_TheHashesAreInTheCacheFolder) {
  put(theirs(), "theirs");
  fs::create_symlink(theirs(), hashes());
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(notes_at_home(), 1U);
}

}  // namespace
}  // namespace rekindle::data
