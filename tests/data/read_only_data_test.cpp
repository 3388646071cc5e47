// The notes about an image folder that this user cannot write to: where they are kept.
#include <unistd.h>

#include "../needs.hpp"
#include "folder_contents_fixture.hpp"

namespace rekindle::data {
namespace {

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
  Status read_changed() const {
    make_writable();
    change(image());
    make_read_only();
    return read(*opened());
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
  const Status changed = read_changed();
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
  refused(read_changed(), "another content");
}

TEST_F(ReadOnlyData, WhereTheHashesBesideThemAreRoots_NewOnesAreInTheCacheFolder) {
  if (!is_root_) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  make_writable();
  EXPECT_TRUE(read(*opened()));
  fs::permissions(folder(), fs::perms(0777));
  ASSERT_EQ(::chown(home().c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(::seteuid(kNobody), 0);
  const std::string of_root = get(hashes());
  EXPECT_TRUE(read(*opened(), 1));
  EXPECT_EQ(get(hashes()), of_root);
  ASSERT_EQ(::seteuid(0), 0);
  change(second_image());
  ASSERT_EQ(::seteuid(kNobody), 0);
  refused(read(*opened(), 1), "another content");
}

TEST_F(ReadOnlyData, IfNoMoreHashesCanBeAppendedBesideThem_TheCacheFolderHasThem) {
  if (!is_root_) REKINDLE_SKIP(Needs::kRoot, "another owner needs root");
  make_writable();
  fs::permissions(folder(), fs::perms(0777));
  ASSERT_EQ(::chown(home().c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(::seteuid(kNobody), 0);
  {
    const auto dataset = opened();
    ASSERT_TRUE(fs::exists(hashes()));
    const std::size_t before = notes_at_home();
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_EQ(::chown(hashes().c_str(), 12345, 12345), 0);
    ASSERT_EQ(::seteuid(kNobody), 0);
    EXPECT_TRUE(read(*dataset));
    EXPECT_EQ(notes_at_home(), before + 1);
  }
  refused(read_changed(), "another content");
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
