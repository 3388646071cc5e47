// bench_storage: writes and reads a checkpoint, and the same bytes raw, in turns. docs/performance.md has
// results.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/block_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::bench {
namespace {

namespace fs = std::filesystem;
using checkpoint::State;

struct Sizes {
  std::string directory;
  int threads = 2, rounds = 5;
  double gigabytes = 1.06;
};

void need(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "bench_storage: %s\n", status.error().line().c_str());
  std::exit(70);
}

// Seconds until all threads are done.
double timed(int threads, const std::function<Status(int)>& work) {
  const auto began = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> all;
    all.reserve(static_cast<std::size_t>(threads));
    for (int i = 0; i < threads; ++i) all.emplace_back([&work, i] { need(work(i)); });
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Huge pages: the fastest source for a disk, and the memory type of a trainer's state.
class HugePages {
 public:
  explicit HugePages(std::size_t bytes)
      : size_(bytes),
        bytes_(static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage))) {
    if (!bytes_) throw std::bad_alloc();
    ::madvise(bytes_.get(), bytes, MADV_HUGEPAGE);
  }
  std::span<std::byte> span() { return {bytes_.get(), size_}; }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

// Like VGG11's state: two large layers, twice.
struct OwnedState {
  std::vector<HugePages> storage;
  State state;

  explicit OwnedState(double gigabytes) {
    const auto rows = static_cast<std::int64_t>(gigabytes * 1e9 / 2 / (25088 + 4096) / sizeof(float));
    for (const char* prefix : {"", "momentum."}) {
      add(str(prefix, "classifier.0.weight"), {rows, 25088});
      add(str(prefix, "classifier.3.weight"), {rows, 4096});
    }
  }
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    checkpoint::TensorSpec spec{name, checkpoint::Dtype::kFloat32, std::move(shape), {}};
    const std::span<std::byte> bytes = storage.emplace_back(spec.bytes()).span();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(static_cast<std::uint32_t>(i) * 2654435761U >> 24);
    state.push_back({std::move(spec), bytes});
  }
};

constexpr int kDirect = O_DIRECT | O_CLOEXEC;

Fd open_file(const fs::path& path, int flags) {
  Fd fd(::open(path.c_str(), flags, 0644));
  if (!fd) need(forward_error(errno_error("cannot open", path)));
  return fd;
}

constexpr std::size_t kRawBytes = std::size_t{4} << 20;

Status write_raw(const fs::path& path, std::size_t bytes) {
  HugePages block(kRawBytes);
  std::ranges::fill(block.span(), std::byte{0x5a});
  Fd fd = open_file(path, kDirect | O_WRONLY | O_CREAT | O_EXCL);
  for (std::size_t at = 0; at < bytes; at += kRawBytes)
    REKINDLE_CHECK(write_all(fd.get(), path, at, block.span()));
  REKINDLE_CHECK(sync_file(fd.get(), path));
  return fd.close(path);
}

Status read_raw(const fs::path& path, std::size_t bytes) {
  HugePages block(kRawBytes);
  const Fd fd = open_file(path, kDirect | O_RDONLY);
  for (std::size_t at = 0; at + kRawBytes <= bytes; at += kRawBytes)
    REKINDLE_CHECK(read_into(fd.get(), path, at, block.span()));
  return {};
}

void drop_from_cache(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const Fd fd = open_file(entry.path(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

class Bench {
 public:
  explicit Bench(const Sizes& sizes)
      : sizes_(sizes), owned_(sizes.gigabytes), bytes_(total_bytes(spec_of(owned_.state))) {}

  // Every file is new. All files are removed and the removal is synced before the next round begins. The
  // order changes from round to round.
  void run(const fs::path& root) {
    const fs::path raw = root / "raw";
    const auto raw_file = [&raw](int i) { return raw / std::to_string(i); };
    const std::size_t each = bytes_ / static_cast<std::size_t>(sizes_.threads);
    for (int round = 1; round <= sizes_.rounds; ++round) {
      fs::create_directories(raw);
      const auto step = static_cast<std::uint64_t>(round);
      const checkpoint::CheckpointId lent_id{step, 1, 1}, copied_id{step, 1, 2};
      double raw_write = 0, lent = 0, copied = 0;
      const std::array<std::function<void()>, 3> writes = {
          [&] { raw_write = timed(sizes_.threads, [&](int i) { return write_raw(raw_file(i), each); }); },
          [&] { lent = write(root, lent_id, true); }, [&] { copied = write(root, copied_id, false); }};
      for (std::size_t i = 0; i < writes.size(); ++i)
        writes[(i + static_cast<std::size_t>(round)) % writes.size()]();
      double raw_read = 0, read = 0;
      const auto read_all = [&] {
        raw_read = timed(sizes_.threads, [&](int i) { return read_raw(raw_file(i), each); });
      };
      if (round % 2 == 0) read_all();
      read = this->read(checkpoint::directory_of(root, lent_id));
      if (round % 2 != 0) read_all();
      std::printf(
          "round %d: raw write %.2f GB/s; from where it lies %.2f GB/s: %.0f %%; "
          "copied and hashed %.2f GB/s: %.0f %%; raw read %.2f GB/s; restore %.2f GB/s: %.0f %%\n",
          round, rate(raw_write), rate(lent), 100 * raw_write / lent, rate(copied), 100 * raw_write / copied,
          rate(raw_read), rate(read), 100 * raw_read / read);
      std::fflush(stdout);
      need(checkpoint::discard(root, lent_id));
      need(checkpoint::discard(root, copied_id));
      fs::remove_all(raw);
      ::sync();
    }
  }

 private:
  double rate(double seconds) const { return static_cast<double>(bytes_) / 1e9 / seconds; }

  // Includes the commit; the hashes exist already, as in training. `lent`: without the second check of the
  // state, which guards against an update.
  double write(const fs::path& root, const checkpoint::CheckpointId& id, bool lent) {
    checkpoint::Reading reading;
    if (lent) reading.still_as_hashed = [] { return true; };
    checkpoint::Manifest manifest;
    manifest.id = id;
    manifest.identity = manifest.fingerprint = "{}";
    manifest.contents = {spec_of(owned_.state), hash_chunks(owned_.state)};
    manifest.digest = state_digest(id.step, manifest.contents.tensors, manifest.contents.chunks).hex();
    manifest.shards.resize(static_cast<std::size_t>(sizes_.threads));
    const auto began = std::chrono::steady_clock::now();
    timed(sizes_.threads, [&](int i) -> Status {
      REKINDLE_TRY(manifest.shards[static_cast<std::size_t>(i)],
                   checkpoint::write_shard(root, id, owned_.state, manifest.contents.chunks, sizes_.threads,
                                           i, reading));
      return {};
    });
    need(checkpoint::commit(root, manifest));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  double read(const FilePath& directory) {
    drop_from_cache(directory.path());
    const auto manifest = checkpoint::read_manifest(directory);
    if (!manifest) need(forward_error(manifest.error()));
    return timed(sizes_.threads, [&](int i) {
      return checkpoint::read_part(directory, *manifest, sizes_.threads, i, owned_.state);
    });
  }

  const Sizes sizes_;
  OwnedState owned_;
  const std::size_t bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App cli("A checkpoint written and read, beside the same bytes raw", "bench_storage");
  Sizes sizes;
  cli.add_option("DIRECTORY", sizes.directory, "on the storage to measure")->required();
  cli.add_option("--threads", sizes.threads, "for writing and for reading")->capture_default_str();
  cli.add_option("--gigabytes", sizes.gigabytes, "of state")->capture_default_str();
  cli.add_option("--rounds", sizes.rounds)->capture_default_str();
  CLI11_PARSE(cli, argc, argv);
  std::string root = fs::path(sizes.directory) / "rekindle-storage-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) {
    std::fprintf(stderr, "bench_storage: no directory in %s\n", sizes.directory.c_str());
    return 70;
  }
  Bench(sizes).run(root);
  fs::remove_all(root);
  return 0;
}

}  // namespace rekindle::bench

int main(int argc, char** argv) { return rekindle::bench::main(argc, argv); }
