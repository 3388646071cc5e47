// Any damage to any file of a checkpoint is found, or has no effect on the restored state.
#include "checkpoint/export.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

class DamageAnywhere : public CheckpointTest {
 protected:
  CheckpointId id{5, 1, 1};
  OwnedState owned{small_spec()};
  Manifest manifest = write_checkpoint(run_dir, id, owned.state, 3);
  fs::path directory = directory_of(run_dir, id);
  std::vector<std::string> files = files_that_count(directory);
  Rng rng{stream_key(17, Draws::kOrder)};
  int looks = 0;

  // No reader restores through the other file.
  static std::vector<std::string> files_that_count(const fs::path& directory) {
    std::vector<std::string> files = files_in(directory);
    std::erase(files, "whole.h5");
    return files;
  }
  // Uses every way to read, but the slower way only every fourth time. True if the damage was found.
  bool is_found(const fs::path& place, const OwnedState& right) {
    const auto loaded = load(place);
    if (loaded) {
      EXPECT_EQ(loaded->storage, right.storage);
    }
    if (!loaded || ++looks % 4 != 0) return !loaded || !verify(place, *read_manifest(place));
    const auto read = read_manifest(place);
    OwnedState back(small_spec(), 99);
    const bool restored = read && restore(place, *read, 2, back);
    if (restored && state_digest(read->id.step, back.state).hex() == read->digest) {
      EXPECT_EQ(back.storage, right.storage);
    }
    return !loaded || !verify(place, *read);
  }
  bool is_found() { return is_found(directory, owned); }

  // Runs `damage` `times` times on each file, each time on an undamaged copy.
  template <class Change>
  void damage_each_file(int times, const Change& damage) {
    ASSERT_EQ(files.size(), 4U);
    ASSERT_FALSE(is_found());
    for (const std::string& file : files) {
      const fs::path path = directory / file;
      const std::string whole = *read_text(path);
      for (int i = 0; i < times; ++i) {
        std::string text = whole;
        SCOPED_TRACE(str(file, ": ", damage(text)));
        if (text == whole) continue;
        write(path, text);
        ASSERT_TRUE(is_found());
        ASSERT_FALSE(HasFailure());
      }
      write(path, whole);
    }
    EXPECT_FALSE(is_found());
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::remove(path);  // ext4 flushes a file that is truncated and written again
    std::ofstream(path, std::ios::binary) << text;
  }
};

TEST_F(DamageAnywhere, ABitFlippedAtAThousandPlacesOfEachFile_IsFound) {
  damage_each_file(1000, [this](std::string& text) {
    const std::size_t place = rng.below(text.size());
    const std::uint64_t bit = rng.below(8);
    text[place] = static_cast<char>(static_cast<unsigned char>(text[place]) ^ (1U << bit));
    return str("byte ", place, " bit ", bit);
  });
}

// No reader restores through this file, so its content does not matter.
TEST_F(DamageAnywhere, ABitFlippedAtAThousandPlacesOfTheWholeTensorsFile_ChangesNothing) {
  const fs::path path = directory / "whole.h5";
  std::string text = *read_text(path);
  for (int i = 0; i < 1000; ++i) {
    text[rng.below(text.size())] ^= static_cast<char>(1U << rng.below(8));
    write(path, text);
    ASSERT_FALSE(is_found());
    ASSERT_FALSE(HasFailure());
  }
}

// Other faults of storage than flipped bits: lost and misdirected writes, parts of other files.
TEST_F(DamageAnywhere, APieceOfAFileThatIsZerosGarbageOrFromElsewhere_IsFound) {
  damage_each_file(500, [this](std::string& text) {
    const std::size_t bytes = std::min<std::size_t>(text.size(), std::size_t{1} << rng.below(13));
    const std::size_t to = rng.below(text.size() - bytes + 1), from = rng.below(text.size() - bytes + 1);
    std::string piece = text.substr(from, bytes);
    const std::uint64_t kind = rng.below(3);
    if (kind == 0) piece.assign(bytes, '\0');
    if (kind == 1) std::ranges::generate(piece, [this] { return static_cast<char>(rng.next()); });
    text.replace(to, bytes, piece);
    return str(bytes, " bytes from ", from, " at ", to, ", kind ", kind);
  });
}

TEST_F(DamageAnywhere, ATruncatedOrLongerFile_IsFound) {
  damage_each_file(300, [this](std::string& text) {
    const std::size_t before = text.size();
    text.resize(rng.below(2 * before), 'x');
    return str(text.size(), " instead of ", before, " bytes");
  });
}

TEST_F(DamageAnywhere, ADeletedFile_IsFound) {
  for (const std::string& file : files) {
    fs::rename(directory / file, run_dir / "away");
    EXPECT_TRUE(is_found()) << file;
    fs::rename(run_dir / "away", directory / file);
  }
  EXPECT_FALSE(is_found());
}

TEST_F(DamageAnywhere, TwoFilesSwapped_AreFound) {
  const auto swap = [this](const std::string& one, const std::string& other) {
    fs::rename(directory / one, run_dir / "away");
    fs::rename(directory / other, directory / one);
    fs::rename(run_dir / "away", directory / other);
  };
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      swap(files[i], files[j]);
      EXPECT_TRUE(is_found()) << files[i] << " and " << files[j];
      swap(files[i], files[j]);
    }
  }
  EXPECT_FALSE(is_found());
}

// Every mixture of the files of two checkpoints: of different steps, and of one step but two generations.
TEST_F(DamageAnywhere, AMixtureOfTwoCheckpoints_IsFoundOrHasTheBitsOfOne) {
  for (const CheckpointId& other_id : {CheckpointId{6, 1, 1}, CheckpointId{5, 1, 2}}) {
    const OwnedState other(small_spec(), 2);
    write_checkpoint(run_dir, other_id, other.state, 3);
    for (unsigned mixture = 1; mixture < (1U << files.size()); ++mixture) {
      for (const bool in_place : {true, false}) {
        const fs::path mixed = run_dir / "mixed" / (in_place ? id.directory_name() : "any");
        fs::create_directories(mixed);
        for (std::size_t i = 0; i < files.size(); ++i) {
          const bool from_other = (mixture >> i & 1U) != 0;
          fs::copy_file((from_other ? directory_of(run_dir, other_id) : directory) / files[i],
                        mixed / files[i]);
        }
        const bool others_manifest = (mixture & 1U) != 0;
        const fs::path whole = others_manifest ? directory_of(run_dir, other_id) : directory;
        // Shards without tensors may be equal in both.
        const bool same = std::ranges::all_of(files, [&](const std::string& file) {
          return *read_text(mixed / file) == *read_text(whole / file);
        });
        EXPECT_EQ(is_found(mixed, others_manifest ? other : owned), !same || (others_manifest && in_place))
            << mixture;
        fs::remove_all(run_dir / "mixed");
      }
    }
  }
  ASSERT_EQ(files[0], "manifest.json");
}

// The same bits at another step or with another split into shards are equal tensors, but not equal files.
TEST_F(DamageAnywhere, AShardOfAnotherCut_IsFound) {
  const CheckpointId other_id{5, 1, 2};
  write_checkpoint(run_dir, other_id, owned.state, 2);
  for (int shard = 0; shard < 2; ++shard) {
    const std::string theirs = str("shard-0000", shard, "-of-00002.h5"), ours = files[1 + shard];
    fs::rename(directory / ours, run_dir / "away");
    fs::copy_file(directory_of(run_dir, other_id) / theirs, directory / ours);
    EXPECT_TRUE(is_found()) << theirs;
    fs::rename(run_dir / "away", directory / ours);
  }
  EXPECT_FALSE(is_found());
}

}  // namespace
}  // namespace rekindle::checkpoint
