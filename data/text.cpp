// Text for a byte-level language model: each byte is a token. The contexts of a split do not overlap. The
// last one needs a byte after it as its last label, so a split of n bytes has (n - 1) / context samples.
#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "data/formats.hpp"
#include "data/make_data.hpp"
#include "data/synthetic.hpp"

namespace rekindle::data {
namespace {

namespace fs = std::filesystem;

constexpr int kBytes = 256;  // as many tokens as values of a byte

// The last tenth of a text without splits of its own, rounded down, is its test split.
constexpr std::size_t test_bytes(std::size_t bytes) { return bytes / 10; }
constexpr std::size_t train_bytes(std::size_t bytes) { return bytes - test_bytes(bytes); }
constexpr std::size_t samples_in(std::size_t split_bytes, std::size_t context) {
  return (split_bytes - 1) / context;
}

class Text final : public Dataset {
 public:
  // `train`: the first bytes, which are the training split.
  Text(std::vector<std::uint8_t> bytes, std::size_t train, int context, std::string warning = {})
      : bytes_(std::move(bytes)), train_(train) {
    info_ = {.kind = kText.name, .samples = SampleKind::kText, .context = context, .classes = kBytes};
    info_.train_count = samples_in(split(Split::kTrain).size(), static_cast<std::size_t>(context));
    info_.test_count = samples_in(split(Split::kTest).size(), static_cast<std::size_t>(context));
    std::array<std::uint8_t, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i)
      length[i] = static_cast<std::uint8_t>(split(Split::kTrain).size() >> (8 * i));
    Hasher128 hasher;
    hasher.update(std::as_bytes(std::span(length)));
    hasher.update(std::as_bytes(std::span(bytes_)));
    info_.content_hash = hasher.digest().hex();
    info_.warning = std::move(warning);
  }

  const DatasetInfo& info() const override { return info_; }

  Status read(Split split_of, std::size_t index, const TransformConfig&, std::uint64_t, Batch& batch,
              std::size_t place) const override {
    const auto context = static_cast<std::size_t>(info_.context);
    const auto bytes = split(split_of).subspan(index * context, context + 1);
    const auto at = static_cast<std::ptrdiff_t>(place * context);
    std::copy(bytes.begin(), bytes.end() - 1, batch.tokens.begin() + at);
    std::copy(bytes.begin() + 1, bytes.end(), batch.labels.begin() + at);
    return {};
  }

 private:
  std::span<const std::uint8_t> split(Split split) const {
    return split == Split::kTrain ? std::span(bytes_).first(train_) : std::span(bytes_).subspan(train_);
  }

  DatasetInfo info_;
  const std::vector<std::uint8_t> bytes_;
  const std::size_t train_;
};

enum class SplitWord { kNone, kTrain, kTest };

// What a file's name says of its split: train.txt, wiki.valid.tokens, test-00001.
SplitWord split_word(const std::string& name) {
  std::string word;
  SplitWord found = SplitWord::kNone;
  for (const char c : name + ".") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word == "train" || word == "training") found = SplitWord::kTrain;
    for (const char* test : {"val", "valid", "validation", "dev", "test"})
      if (word == test) found = SplitWord::kTest;
    word.clear();
  }
  return found;
}

// Without that, a file for testing would be trained on.
Status check_no_splits(const fs::path& folder, const std::vector<fs::path>& files) {
  const auto first = [&](SplitWord word) {
    return std::ranges::find(files, word, [](const fs::path& file) { return split_word(file.filename()); });
  };
  const auto train = first(SplitWord::kTrain), test = first(SplitWord::kTest);
  if (train == files.end() || test == files.end()) return {};
  return fail(ExitCode::kConfig,
              str(folder.string(), " has the files ", train->filename().string(), " and ",
                  test->filename().string(), ", which look like splits and would be one text"),
              "put them into folders train and val. If all are for training, or a run began with them as one "
              "text: join them to one file, in the order of their names");
}

// The files of a text, in the order in which they are read. Folders inside a folder and hidden files
// (.DS_Store) are skipped. All else is listed, so that a link without a target, for example, is an error and
// does not change the text in silence.
Result<std::vector<fs::path>> files_of(const fs::path& path) {
  if (!path_exists(path)) {
    return fail(ExitCode::kConfig, str(path.string(), ": no such file or directory"),
                str("set --data to a file or a folder of files, or make a text: rekindle make-data ",
                    kText.name, " ", path.string()));
  }
  if (!is_folder(path)) return std::vector{path};
  const auto names = names_in(path);
  if (!names) return fail(ExitCode::kConfig, names.error().what, "make this folder readable");
  std::vector<fs::path> files;
  for (const std::string& name : *names) {
    if (!name.starts_with('.') && !is_folder(path / name)) files.push_back(path / name);
  }
  if (files.empty()) {
    return fail(
        ExitCode::kConfig, str(path.string(), " has no files"),
        "files in folders inside this folder are not read, except of train and val: name one of them");
  }
  REKINDLE_CHECK(check_no_splits(path, files));
  return files;
}

struct SplitFolders {
  fs::path train, test;
};

// Of a folder that has them, and no files. A folder with files has had no other splits than their last tenth.
Result<std::optional<SplitFolders>> split_folders(const fs::path& path) {
  if (!is_folder(path / "train")) return std::nullopt;
  REKINDLE_TRY(const std::vector<std::string> names, names_in(path));
  for (const std::string& name : names)
    if (!name.starts_with('.') && !is_folder(path / name)) return std::nullopt;
  REKINDLE_TRY(const std::string test, test_folder(path, "the last tenth"));
  return SplitFolders{path / "train", path / test};
}

// A README.md beside the splits would be the whole text.
std::string warning_of(const fs::path& path, const std::vector<fs::path>& files) {
  if (!is_folder(path / "train")) return {};
  const auto test = test_folder(path, "the last tenth");
  if (!test) return {};
  return str("of ", path.string(), ", only the files are read (", files.front().filename().string(),
             files.size() > 1 ? ", ..." : "", "), and the folders train and ", *test,
             " are not: if these are the splits, move the files elsewhere");
}

Result<std::uint64_t> bytes_in(const std::vector<fs::path>& files) {
  std::uint64_t total = 0;
  for (const fs::path& path : files) {
    REKINDLE_TRY(const InputFile file, open_data_file(path));
    if (file.size == 0)
      return fail(ExitCode::kConfig, str(path.string(), " is empty"), "copy it again, or remove it");
    total += file.size;
  }
  return total;
}

// The caller reserves the memory once for all files, because a text may be a large part of it.
Status append_files(const std::vector<fs::path>& files, std::vector<std::uint8_t>& bytes) {
  for (const fs::path& path : files) {
    REKINDLE_TRY(const InputFile file, open_data_file(path));
    const std::size_t at = bytes.size();
    bytes.resize(at + file.size);
    REKINDLE_CHECK(file.read(0, std::as_writable_bytes(std::span(bytes).subspan(at))));
  }
  return {};
}

Status check_samples(const fs::path& path, std::size_t train_bytes, std::size_t context) {
  if (samples_in(train_bytes, context) <= std::numeric_limits<std::uint32_t>::max()) return {};
  return fail(ExitCode::kConfig, str(path.string(), " has more than 4294967295 training samples"),
              "use a larger context, or a part of the text");
}

Result<std::unique_ptr<Dataset>> open_splits(const SplitFolders& splits, std::size_t context) {
  const auto check_length = [context](const fs::path& folder, std::size_t bytes) -> Status {
    if (bytes > context) return {};
    return fail(ExitCode::kConfig,
                str(folder.string(), " has ", counted(bytes, "byte"),
                    ", less than a context and the byte after it, ", context + 1),
                "use a longer text, or a smaller context");
  };
  REKINDLE_TRY(const std::vector<fs::path> train_files, files_of(splits.train));
  REKINDLE_TRY(const std::uint64_t train_size, bytes_in(train_files));
  REKINDLE_CHECK(check_length(splits.train, train_size));
  REKINDLE_CHECK(check_samples(splits.train, train_size, context));
  REKINDLE_TRY(const std::vector<fs::path> test_files, files_of(splits.test));
  REKINDLE_TRY(const std::uint64_t test_size, bytes_in(test_files));
  REKINDLE_CHECK(check_length(splits.test, test_size));
  std::vector<std::uint8_t> bytes;
  bytes.reserve(train_size + test_size);
  REKINDLE_CHECK(append_files(train_files, bytes));
  const std::size_t train = bytes.size();
  REKINDLE_CHECK(append_files(test_files, bytes));
  if (train != train_size || bytes.size() != train_size + test_size)
    return fail(ExitCode::kConfig, str("the files in ", splits.train.parent_path().string(), " change"),
                "start again when they are complete");
  return std::make_unique<Text>(std::move(bytes), train, static_cast<int>(context));
}

Result<std::unique_ptr<Dataset>> open_text(const fs::path& path, const DatasetOptions& options) {
  if (options.context < 1) {
    return fail(ExitCode::kConfig, str("a context of ", options.context, " tokens for ", path.string()),
                "use a context of 1 token or more");
  }
  const auto context = static_cast<std::size_t>(options.context);
  REKINDLE_TRY(const std::optional<SplitFolders> splits, split_folders(path));
  if (splits) return open_splits(*splits, context);
  REKINDLE_TRY(const std::vector<fs::path> files, files_of(path));
  REKINDLE_TRY(const std::uint64_t size, bytes_in(files));
  std::vector<std::uint8_t> bytes;
  bytes.reserve(size);
  REKINDLE_CHECK(append_files(files, bytes));
  // The test split is never longer than the training split, so it alone has to be checked.
  if (const std::size_t test = test_bytes(bytes.size()); test < context + 1) {
    return fail(
        ExitCode::kConfig,
        str(path.string(), " has ", counted(bytes.size(), "byte"), ", and the last tenth for testing, ",
            counted(test, "byte"), ", is less than a context and the byte after it, ", context + 1),
        str("use a text of ", 10 * (context + 1), " bytes or more, or a smaller context"));
  }
  const std::size_t train = train_bytes(bytes.size());
  REKINDLE_CHECK(check_samples(path, train, context));
  return std::make_unique<Text>(std::move(bytes), train, options.context, warning_of(path, files));
}

constexpr std::size_t kMadeContext = DatasetOptions{}.context;
constexpr const char* kMadeName = "text.txt";

// The smallest text with so many training samples and one test sample.
constexpr std::size_t made_bytes(std::size_t samples) {
  const std::size_t train = samples * kMadeContext + 1;
  return std::max(train + (train - 1) / 9, 10 * (kMadeContext + 1));
}
static_assert(train_bytes(made_bytes(10)) == 10 * kMadeContext + 1);
static_assert(samples_in(train_bytes(made_bytes(1)), kMadeContext) == 9);
static_assert(samples_in(test_bytes(made_bytes(1)), kMadeContext) == 1);

// Writes the file `path`, or the only file of the folder `path`.
Result<MadeData> make_text(const fs::path& path, std::size_t samples, std::uint64_t seed) {
  const bool in_folder = is_folder(path) || !path.has_filename();
  const fs::path folder = in_folder ? path : fs::absolute(path).parent_path();
  const std::string name = in_folder ? kMadeName : path.filename().string();
  REKINDLE_TRY(DataWriter writer, DataWriter::in(folder));
  if (in_folder) {
    REKINDLE_TRY(const std::vector<std::string> others, names_in(folder));
    for (const std::string& other : others) {
      if (other != name && !is_folder(folder / other)) REKINDLE_CHECK(writer.check_absent(other));
    }
  }
  const std::size_t bytes = made_bytes(samples);
  REKINDLE_CHECK(writer.write(name, write_sentences(bytes, seed)));
  return writer.made(samples_in(train_bytes(bytes), kMadeContext),
                     samples_in(test_bytes(bytes), kMadeContext));
}

}  // namespace

const DatasetRow kText = {
    "text",
    "a file of any bytes, a folder whose files are joined in the order of their names, or train/ and val/",
    SampleKind::kText,
    Augment::kOff,
    open_text,
    make_text};

}  // namespace rekindle::data
