#include "app/environment_note.hpp"

#include <gtest/gtest.h>

namespace rekindle::app {
namespace {

TEST(EnvironmentNote, IsSortedAndHasNoSecrets) {
  EXPECT_EQ(environment_note({"PATH=/bin", "AWS_SECRET_ACCESS_KEY=abc", "HOME=/home/a", "wandb_api_key=x",
                              "DB_PASSWORD=", "GITHUB_TOKEN=y"}),
            "AWS_SECRET_ACCESS_KEY=***\nDB_PASSWORD=\nGITHUB_TOKEN=***\nHOME=/home/a\nPATH=/bin\n"
            "wandb_api_key=***\n");
}

TEST(EnvironmentNote, PasswordsAndWebhooksAreMasked_FoldersAreNot) {
  EXPECT_EQ(
      environment_note({"MYSQL_PWD=a", "PWD=/home/a", "OLDPWD=/", "SLACK_WEBHOOK_URL=https://b", "APWD=c"}),
      "APWD=c\nMYSQL_PWD=***\nOLDPWD=/\nPWD=/home/a\nSLACK_WEBHOOK_URL=***\n");
}

TEST(EnvironmentNote, PasswordsInUrlsAreMasked) {
  EXPECT_EQ(environment_note({"http_proxy=http://me:pw@proxy:3128/x"}),
            "http_proxy=http://***@proxy:3128/x\n");
  EXPECT_EQ(environment_note({"A=https://a/b@c", "B=s3://k:s@h ftp://u:p@g"}),
            "A=https://a/b@c\nB=s3://***@h ftp://***@g\n");
  EXPECT_EQ(environment_note({"A=://", "B=x://@"}), "A=://\nB=x://***@\n");
}

TEST(EnvironmentNote, OddVariablesStayOnOneLine) {
  EXPECT_EQ(environment_note({"F=() { a;\n}", "none", "=x"}), "=x\nF=() { a;\\n}\nnone=\n");
}

}  // namespace
}  // namespace rekindle::app
