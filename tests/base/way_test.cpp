// Folders and links in a directory's path that let another user exchange the directory.
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "../needs.hpp"
#include "base/way.hpp"
#include "trust_fixture.hpp"

namespace rekindle {
namespace {

class WayTest : public TrustTest {
 protected:
  WayTest() { fs::create_directories(path_ / "a/b/run"); }
  using Found = std::vector<fs::path>;
  void set(const std::string& name, mode_t mode) const { ::chmod((path_ / name).c_str(), mode); }
  // Only folders and links that the test has made.
  Found found(const std::string& name) const {
    Found all = exchangeable_on_the_way(path_ / name);
    std::erase_if(all, [&](const fs::path& each) { return !each.string().starts_with(path_.string()); });
    return all;
  }
};

TEST_F(WayTest, OwnFolders_NobodyCanExchangeTheDirectory) { EXPECT_EQ(found("a/b/run"), Found()); }

TEST_F(WayTest, AnyFolderAboveThatOthersMayChange_IsFound) {
  set("a", 0777);
  EXPECT_EQ(found("a/b/run"), Found{path_ / "a"});
  set("a/b", 02775);  // like a project folder
  EXPECT_EQ(found("a/b/run"), (Found{path_ / "a", path_ / "a/b"}));
  set("a", 01777);  // like /tmp
  EXPECT_EQ(found("a/b/run"), Found{path_ / "a/b"});
  set("a/b/run", 0777);  // other code checks the content of the directory
  EXPECT_EQ(found("a/b/run"), Found{path_ / "a/b"});
}

TEST_F(WayTest, FolderAboveALinkAndAboveItsTarget_AreFound) {
  fs::create_directories(path_ / "links/deep");
  fs::create_directory_symlink("../../a/b", path_ / "links/deep/near");
  fs::create_directory_symlink(path_ / "links/deep/near/run", path_ / "name");
  EXPECT_EQ(found("name"), Found());
  set("a", 0770);
  EXPECT_EQ(found("name"), Found{path_ / "a"});
  set("a", 0700);
  set("links", 0770);
  EXPECT_EQ(found("name"), Found{path_ / "links"});
}

TEST_F(WayTest, LinksInACircle_AnEnd) {
  fs::create_symlink(path_ / "two", path_ / "one");
  fs::create_symlink(path_ / "one", path_ / "two");
  EXPECT_EQ(found("one/run"), Found());
}

TEST_F(WayTest, FolderOrLinkOfAnotherUser_IsFound) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can give files away");
  fs::create_directory_symlink(path_ / "a/b", path_ / "link");
  ASSERT_EQ(::lchown((path_ / "link").c_str(), kSomebodyElse, kSomebodyElse), 0);
  EXPECT_EQ(found("link/run"), Found()) << "in a folder where nobody else makes names";
  set("", 01777);
  EXPECT_EQ(found("link/run"), Found{path_ / "link"});
  ASSERT_EQ(::chown((path_ / "a").c_str(), kSomebodyElse, kSomebodyElse), 0);
  EXPECT_EQ(found("a/b/run"), Found{path_ / "a"});
}

}  // namespace
}  // namespace rekindle
