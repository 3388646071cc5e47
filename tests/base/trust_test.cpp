// Possible changes of a run directory by another user: links, owners, modes, access lists, pipes, hard links,
// another directory in its place.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "../needs.hpp"
#include "base/append_file.hpp"
#include "base/log.hpp"
#include "base/trust.hpp"
#include "trust_fixture.hpp"

namespace rekindle {
namespace {

TEST_F(TrustTest, OwnFiles_ReadWrittenReplacedAndPrivate) {
  EXPECT_EQ(read_text(at("folder/file")).value(), "ours");
  ASSERT_TRUE(replace_file(at("folder/new"), "text"));
  EXPECT_EQ(text_of("own/folder/new"), "text");
  ASSERT_TRUE(make_directories(at("a/b")));
  ASSERT_TRUE(create_exclusively(at("a/b/c"), "1").value());
  EXPECT_FALSE(create_exclusively(at("a/b/c"), "2").value());
  for (const char* name : {"own/folder/new", "own/a/b/c"})
    EXPECT_EQ(look_at(path_ / name).value()->st_mode & 0777, 0600U) << name;
  for (const char* name : {"own/a", "own/a/b"})
    EXPECT_EQ(look_at(path_ / name).value()->st_mode & 0777, 0700U);
  EXPECT_EQ(names_in(at("a/b")).value(), std::vector<std::string>{"c"});
  ASSERT_TRUE(remove_tree(at("a")));
  EXPECT_FALSE(path_exists(at("a")));
}

TEST_F(TrustTest, ReadableByOthers_IsFine) {
  ::chmod((path_ / "own").c_str(), 0755);
  ::chmod((path_ / "own/folder/file").c_str(), 0644);
  EXPECT_EQ(read_text(at("folder/file")).value(), "ours");
}

TEST_F(TrustTest, LinkInPlaceOfAFile_NeitherReadNorWrittenNorShortened) {
  fs::create_symlink(path_ / "victim", path_ / "own/link");
  expect_refused(at("link"), "is a symbolic link");
  EXPECT_EQ(text_of("victim"), "precious");
  ASSERT_TRUE(replace_file(at("link"), "new"));  // the link is replaced, not its target
  EXPECT_EQ(text_of("victim"), "precious");
  EXPECT_FALSE(fs::is_symlink(path_ / "own/link"));
}

TEST_F(TrustTest, LinkInPlaceOfAFolder_IsNotEntered) {
  fs::create_directory(path_ / "elsewhere");
  write("elsewhere/file", "theirs");
  fs::create_directory_symlink(path_ / "elsewhere", path_ / "own/linked");
  expect_refused(at("linked/file"), "is a symbolic link");
  for (const Trust trust : {Trust::kOwn, Trust::kForeign}) {
    const auto names = names_in(at("linked", trust));
    ASSERT_FALSE(names);
    EXPECT_EQ(names.error().code, ExitCode::kConfig);
    EXPECT_NE(names.error().line().find("is a symbolic link"), std::string::npos) << names.error().line();
  }
  EXPECT_FALSE(make_directories(at("linked/deeper")));
  EXPECT_FALSE(path_exists(at("linked/file")));
  ASSERT_TRUE(remove_tree(at("linked")));
  EXPECT_EQ(text_of("elsewhere/file"), "theirs");
}

TEST_F(TrustTest, LinkToTheRootItself_IsWhatAPersonNamed) {
  fs::create_directory_symlink(path_ / "own", path_ / "name");
  EXPECT_EQ(read_text(FilePath::below(path_ / "name", Trust::kOwn, "folder/file")).value(), "ours");
}

// A user who may change the parent folder can replace the root by a rename or a link.
TEST_F(TrustTest, AnotherDirectoryInPlaceOfTheRoot_RefusedThoughItIsTheUsersOwn) {
  const std::uint64_t inode = look_at(path_ / "own").value()->st_ino;
  const auto held = [&](const fs::path& name) {
    return FilePath::below(path_ / "own", Trust::kOwn, name, inode);
  };
  const FilePath file = held("folder") / "file";
  EXPECT_EQ(read_text(file).value(), "ours");
  fs::rename(path_ / "own", path_ / "away");
  fs::create_directories(path_ / "other/folder");
  for (const char* name : {"other", "other/folder"}) ::chmod((path_ / name).c_str(), 0700);
  write("other/folder/file", "another run's");
  const auto expect_nothing_changes = [&] {
    // A later try may find the right one again.
    expect_refused(file, "another directory is in its place", ExitCode::kGaveUp);
    EXPECT_FALSE(replace_file(file, "x"));
    EXPECT_FALSE(replace_file_quickly(held("status.json"), "x"));
    EXPECT_FALSE(make_directories(held("new/folder")));
    EXPECT_FALSE(remove_tree(held("folder")));
    EXPECT_FALSE(names_in(held("")));
    EXPECT_FALSE(path_exists(file));
    EXPECT_EQ(text_of("other/folder/file"), "another run's");
    EXPECT_EQ(names_in(path_ / "other").value(), std::vector<std::string>{"folder"});
  };
  fs::create_directory_symlink(path_ / "other", path_ / "own");
  expect_nothing_changes();
  fs::remove(path_ / "own");
  fs::rename(path_ / "other", path_ / "own");
  EXPECT_FALSE(read_text(file));
  fs::rename(path_ / "own", path_ / "other");
  fs::create_directory_symlink(path_ / "away", path_ / "own");  // the same directory under another path
  EXPECT_EQ(read_text(file).value(), "ours");
}

TEST_F(TrustTest, RemovedTree_LinksInItAreNotFollowed) {
  fs::create_symlink(path_ / "victim", path_ / "own/folder/link");
  fs::create_directory_symlink(path_, path_ / "own/folder/up");
  ASSERT_TRUE(remove_tree(at("folder")));
  EXPECT_EQ(text_of("victim"), "precious");
}

TEST_F(TrustTest, WritableByOthers_RefusedWithTheCommandThatMendsIt) {
  for (const mode_t mode : {0770, 0702, 0720}) {
    for (const char* name : {"own", "own/folder", "own/folder/file"}) {
      const mode_t before = look_at(path_ / name).value()->st_mode & 0777;
      ::chmod((path_ / name).c_str(), mode);
      expect_refused(at("folder/file"), str("chmod -R go-w ", (path_ / "own").string()));
      EXPECT_FALSE(replace_file(at("folder/file"), "x") && name != std::string("own/folder/file"));
      ::chmod((path_ / name).c_str(), before);
    }
  }
}

// An access control list in the kernel's format: owner rwx, a named user rwx, group and others nothing.
// Source: acl(5) and linux/posix_acl_xattr.h.
bool let_write(const fs::path& path, uid_t user) {
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    std::array<Entry, 5> entries;
  } list;
  constexpr std::uint32_t kNobody = 0xFFFFFFFF;
  list.entries = {
      {{0x01, 7, kNobody}, {0x02, 7, user}, {0x04, 0, kNobody}, {0x10, 7, kNobody}, {0x20, 0, kNobody}}};
  return ::setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof list, 0) == 0;
}

TEST_F(TrustTest, AccessListThatLetsSomebodyWrite_RefusedWithSetfacl) {
  if (!let_write(path_ / "own", kSomebodyElse))
    REKINDLE_SKIP(Needs::kMachine, "the file system of /tmp has no access lists");
  expect_refused(at("folder/file"), str("setfacl -b ", (path_ / "own").string()));
}

TEST_F(TrustTest, FileOrFolderOfAnotherUser_Refused) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can give files away");
  for (const char* name : {"own", "own/folder", "own/folder/file"}) {
    ASSERT_EQ(::chown((path_ / name).c_str(), kSomebodyElse, kSomebodyElse), 0);
    expect_refused(at("folder/file"), str((path_ / name).string(), " belongs to user "));
    EXPECT_EQ(read_text(at("folder/file", Trust::kForeign)).value(), "ours") << "to look at it is fine";
    ASSERT_EQ(::chown((path_ / name).c_str(), 0, 0), 0);
  }
}

TEST_F(TrustTest, FileWithASecondName_IsReadAndNotWritten) {
  fs::create_hard_link(path_ / "victim", path_ / "own/log");
  EXPECT_EQ(read_text(at("log")).value(), "precious");
  for (const int flags : {O_WRONLY | O_TRUNC, O_RDWR | O_APPEND | O_CREAT})
    EXPECT_FALSE(open_file(at("log"), flags));
  EXPECT_EQ(text_of("victim"), "precious");
}

// As after `cp -al RUN BACKUP`.
TEST_F(TrustTest, OwnFileWithASecondName_ACopyUnderItsNameIsAppendedTo) {
  fs::create_hard_link(path_ / "victim", path_ / "own/log");
  ::chmod((path_ / "victim").c_str(), 0640);
  for (const char* more : {" and", " more"}) {
    const auto log = open_to_append(at("log"), O_RDWR);
    ASSERT_TRUE(log) << log.error().line();
    ASSERT_GT(::write(log->get(), more, std::string(more).size()), 0);
  }
  EXPECT_EQ(text_of("own/log"), "precious and more");
  EXPECT_EQ(text_of("victim"), "precious");
  const auto info = look_at(at("log")).value();
  EXPECT_EQ(info->st_nlink, 1U);
  EXPECT_EQ(info->st_mode & 0777, 0640U);
  EXPECT_EQ(names_in(at("")).value().size(), 2U) << "no temporary file stays";
}

TEST_F(TrustTest, FileWithASecondNameThatOthersMayChange_IsNotAppendedTo) {
  fs::create_hard_link(path_ / "victim", path_ / "own/log");
  ::chmod((path_ / "victim").c_str(), 0666);
  EXPECT_FALSE(open_to_append(at("log"), O_WRONLY));
  ::chmod((path_ / "victim").c_str(), 0600);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((path_ / "victim").c_str(), kSomebodyElse, kSomebodyElse), 0);
    EXPECT_FALSE(open_to_append(at("log"), O_WRONLY));
  }
  EXPECT_EQ(text_of("victim"), "precious");
  EXPECT_EQ(look_at(path_ / "victim").value()->st_nlink, 2U) << "nothing was replaced";
}

TEST_F(TrustTest, LogWithASecondName_GoesOnInACopy) {
  fs::create_hard_link(path_ / "victim", path_ / "own/run.log");
  start_logging("test", at("run.log"), LogLevel::kNone);
  log_info("the next line");
  start_logging("test", FilePath(), LogLevel::kInfo);
  EXPECT_EQ(text_of("victim"), "precious");
  EXPECT_NE(text_of("own/run.log").find("the next line"), std::string::npos);
}

TEST_F(TrustTest, PipeInPlaceOfAFile_RefusedAtOnce) {
  ASSERT_EQ(::mkfifo((path_ / "own/pipe").c_str(), 0600), 0);
  for (const Trust trust : {Trust::kOwn, Trust::kForeign}) {
    const auto read = read_text(at("pipe", trust));
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().line().find("is not a regular file"), std::string::npos) << read.error().line();
  }
  EXPECT_FALSE(open_file(at("pipe"), O_RDWR | O_APPEND | O_CREAT));
}

TEST_F(TrustTest, ForeignDirectories_AreForReading) {
  EXPECT_THROW(std::ignore = replace_file(at("new", Trust::kForeign), "x"), std::logic_error);
  fs::create_symlink(path_ / "victim", path_ / "own/link");
  EXPECT_FALSE(read_text(at("link", Trust::kForeign)));
}

// NFS gives what root makes to the user nobody.
TEST_F(TrustTest, MadeFileThatBelongsToAnotherUser_TheStorageIsNamed) {
  struct stat made = *look_at(at("folder")).value();
  EXPECT_TRUE(check_own(made, at("folder")));
  made.st_uid = 65534;
  if (::geteuid() == made.st_uid) ++made.st_uid;
  const Status checked = check_own(made, at("folder"));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ExitCode::kConfig);
  EXPECT_NE(checked.error().line().find("root_squash"), std::string::npos) << checked.error().line();
  EXPECT_EQ(checked.error().line().find("chown"), std::string::npos) << checked.error().line();
}

TEST_F(TrustTest, NamesThatLeadOutOfTheRoot_AreAProgramsFault) {
  EXPECT_THROW(std::ignore = at("folder") / "../../victim", std::logic_error);
  EXPECT_THROW(std::ignore = at("folder") / "/etc/passwd", std::logic_error);
}

TEST_F(TrustTest, TemporaryNames_NoneTwice) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(temporary_beside(at("file")).string());
  EXPECT_EQ(names.size(), 100U);
}

TEST_F(TrustTest, LogThatIsALink_IsNotWrittenTo) {
  fs::create_symlink(path_ / "victim", path_ / "own/run.log");
  start_logging("test", at("run.log"), LogLevel::kNone);
  log_info("a line for the victim");
  start_logging("test", at("folder/run.log"), LogLevel::kNone);
  log_info("one line\nssh-rsa AAAA\x1b[32m whole\x1b[0m");
  start_logging("test", FilePath(), LogLevel::kInfo);
  EXPECT_EQ(text_of("victim"), "precious");
  const std::string log = text_of("own/folder/run.log");
  EXPECT_NE(log.find("one line\\nssh-rsa AAAA\\x1b[32m whole\\x1b[0m\n"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

}  // namespace
}  // namespace rekindle
