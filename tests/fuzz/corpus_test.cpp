// What fuzzing starts from, and what it has found, once more in every test run.
#include <gtest/gtest.h>

#include <filesystem>

#include "../checkpoint/resign.hpp"
#include "base/files.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/manifest_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rekindle::checkpoint {
namespace {

bool is_accepted(const std::string& text) {
  if (text.size() < 51) return false;
  const auto manifest = parse_manifest(resigned(text));
  return manifest && check_manifest(*manifest);
}

TEST(Fuzz, EveryManifestOfTheCorpus_IsRefusedOrRestoresEveryByteOnce) {
  int accepted = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(REKINDLE_CORPUS "/manifest")) {
    SCOPED_TRACE(entry.path());
    const auto text = read_text(entry.path());
    ASSERT_TRUE(text) << text.error().line();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
    ++(is_accepted(*text) ? accepted : refused);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0)
      << "fuzzing starts nowhere: add the manifest.json of a small checkpoint to the corpus, and do not "
         "replace an earlier one: if earlier ones are refused, so are the checkpoints of earlier runs";
}

}  // namespace
}  // namespace rekindle::checkpoint
