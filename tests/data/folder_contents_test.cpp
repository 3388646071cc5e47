// The hashes of an image folder's files: when they are noted, and which file with hashes is used.
#include "data/folder_contents.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../needs.hpp"
#include "data/folder_listing.hpp"
#include "data/folder_notes.hpp"
#include "support.hpp"

namespace rekindle::data {
namespace {

class FolderContentsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_data("image-folder", folder(), 40, 1));
    fs::create_directories(home());
    ::setenv("HOME", home().c_str(), 1);
    ::unsetenv("XDG_CACHE_HOME");
  }
  fs::path home() const { return scratch_.path / "home"; }
  std::size_t notes_at_home() const {
    std::error_code none;
    const fs::directory_iterator notes(home() / ".cache/rekindle/notes", none);
    return none ? 0 : static_cast<std::size_t>(std::distance(begin(notes), end(notes)));
  }
  fs::path folder() const { return scratch_.path / "tiny"; }
  fs::path hashes() const { return note_beside(folder(), kHashesNote).path(); }
  // The training sample 0.
  fs::path image() const { return folder() / "train/n00000000/images/n00000000_0.JPEG"; }
  std::unique_ptr<Dataset> opened(bool skip = false) const {
    auto dataset = open_dataset("image-folder", folder(), {.skip_corrupt = skip});
    EXPECT_TRUE(dataset) << dataset.error().line();
    return dataset ? std::move(*dataset) : nullptr;
  }
  static Status read(const Dataset& dataset, std::size_t sample = 0) {
    const TransformConfig small{16, Augment::kOff};
    Batch batch;
    make_room(batch, dataset.info(), small, 1);
    return dataset.read(Split::kTrain, sample, small, 0, batch, 0);
  }
  static void refused(const Status& status, const std::string& word) {
    ASSERT_FALSE(status) << "no error with: " << word;
    EXPECT_NE(status.error().line().find(word), std::string::npos) << status.error().line();
  }
  // The hashes are neither read from the file nor written to it.
  void is_ignored(const std::string& what) const {
    EXPECT_TRUE(read(*opened())) << what;
    EXPECT_EQ(get(theirs()), "theirs") << what;
  }
  fs::path theirs() const { return scratch_.path / "theirs"; }
  Scratch scratch_;
};

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

// Nothing is read-only for root: root becomes another user for the time of a test.
class ReadOnlyData : public FolderContentsTest {
 protected:
  void SetUp() override {
    FolderContentsTest::SetUp();
    age(folder());
    // All times the same: another image of a file system at this path would not be noticed.
    fs::last_write_time(folder() / "train", fs::last_write_time(folder()) - std::chrono::hours(1));
    fs::permissions(scratch_.path, fs::perms(0711));
    make_read_only();
  }
  void TearDown() override { make_writable(); }
  void make_writable() const {
    const int become_root = is_root_ ? ::seteuid(0) : 0;
    ASSERT_EQ(become_root, 0);
    fs::permissions(folder(), fs::perms(0755));
  }
  void make_read_only(uid_t owner_of_home = kNobody) const {
    fs::permissions(folder(), fs::perms(0555));
    if (!is_root_) return;
    ASSERT_EQ(::chown(home().c_str(), owner_of_home, owner_of_home), 0);
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  static constexpr uid_t kNobody = 65534;
  const bool is_root_ = ::geteuid() == 0;
};

TEST_F(ReadOnlyData, ItsNotesAreInTheUsersCacheFolder) {
  EXPECT_FALSE(read_index(folder()));
  const std::string identity = opened()->info().content_hash;
  EXPECT_EQ(notes_at_home(), 2U);
  EXPECT_FALSE(fs::exists(hashes()));
  EXPECT_TRUE(read_index(folder()));
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(opened()->info().content_hash, identity);
  make_writable();
  std::string other = get(image());
  other[other.size() / 2] ^= 1;
  put(image(), other);
  make_read_only();
  const Status changed = read(*opened());
  refused(changed, "another content");
  refused(changed, home().string());
}

TEST_F(ReadOnlyData, NotesBesideThem_AreUsed) {
  make_writable();
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(notes_at_home(), 0U);
  const int owned = is_root_ ? ::chown(hashes().c_str(), kNobody, kNobody) : 0;
  ASSERT_EQ(owned, 0);
  make_read_only();
  EXPECT_TRUE(read_index(folder()));
  make_writable();
  std::string other = get(image());
  other[other.size() / 2] ^= 1;
  put(image(), other);
  make_read_only();
  refused(read(*opened()), "another content");
}

TEST_F(ReadOnlyData, OldNotesAreRemoved) {
  opened();
  ASSERT_EQ(notes_at_home(), 2U);
  for (const auto& note : fs::directory_iterator(home() / ".cache/rekindle/notes"))
    fs::last_write_time(note, fs::file_time_type::clock::now() - std::chrono::hours(24 * 91));
  make_writable();
  fs::permissions(folder() / "val", fs::perms(0555));
  make_read_only();
  ASSERT_TRUE(write_note(note_places(folder() / "val", kIndexNote).front(), "of other data"));
  EXPECT_EQ(notes_at_home(), 1U);
}

TEST_F(ReadOnlyData, InAFolderOfAnotherUser_NothingIsMade) {
  if (!is_root_) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  make_writable();
  fs::permissions(home(), fs::perms(0777));
  make_read_only(12345);
  EXPECT_TRUE(read(*opened()));
  EXPECT_TRUE(fs::is_empty(home()));
}

TEST_F(FolderContentsTest, WhereTheFileIsAnotherUsers_TheHashesAreInTheCacheFolder) {
  put(theirs(), "theirs");
  fs::create_symlink(theirs(), hashes());
  EXPECT_TRUE(read(*opened()));
  EXPECT_EQ(notes_at_home(), 1U);
}

// Its owner may have changed a file in place, which the owner's index does not know.
TEST_F(ReadOnlyData, AnIndexThatCannotBeMarkedAsOutdated_IsNotUsedByThisUserAgain) {
  make_writable();
  const std::string before = opened()->info().content_hash;
  put(image(), get(image()) + "more");
  make_read_only();
  ASSERT_EQ(opened()->info().content_hash, before);
  refused(read(*opened()), "restore it, or start a new run");
  EXPECT_NE(opened()->info().content_hash, before);
  EXPECT_TRUE(read(*opened()));
  EXPECT_TRUE(read_index(folder())) << "the next start looks at every file again";
}

// The same user may write there on another machine, which reads the index beside the data first.
TEST_F(ReadOnlyData, AMarkInTheCacheFolder_CountsWhereTheDataCanBeWritten) {
  make_writable();
  const std::string before = opened()->info().content_hash;
  put(image(), get(image()) + "more");
  make_read_only();
  refused(read(*opened()), "restore it, or start a new run");
  make_writable();
  fs::permissions(folder(), fs::perms(0777));
  const int become_nobody = is_root_ ? ::seteuid(kNobody) : 0;
  ASSERT_EQ(become_nobody, 0);
  EXPECT_FALSE(read_index(folder()));
  EXPECT_NE(opened()->info().content_hash, before);
}

// The error does not pass, and is not damage that may be skipped.
TEST_F(ReadOnlyData, AFileThatMayNotBeRead_IsAnErrorAtOnce) {
  make_writable();
  fs::permissions(image(), fs::perms(0));
  make_read_only();
  for (const bool skip : {false, true}) {
    const Status denied = read(*opened(skip));
    refused(denied, image().string() + " cannot be read: its permissions forbid it");
    EXPECT_EQ(denied.error().kind, ErrorKind::kChangedData);
  }
  make_writable();
  fs::permissions(image(), fs::perms(0644));
  make_read_only();
  EXPECT_TRUE(read(*opened()));
}

// As on an image of a file system without times.
TEST_F(ReadOnlyData, NoIndexIfAllTimesAreTheSame) {
  make_writable();
  age(folder());
  make_read_only();
  opened();
  EXPECT_FALSE(read_index(folder()));
}

}  // namespace
}  // namespace rekindle::data
