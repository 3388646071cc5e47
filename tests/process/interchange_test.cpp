// Weights in the files of other programs: what is written there is read bit for bit, here and by others.
// Files that cannot be read are refused with one line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "../checkpoint/fixture.hpp"
#include "../needs.hpp"
#include "base/files.hpp"
#include "base/sandbox.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/tensor_file.hpp"
#include "interchange_fixture.hpp"

namespace rekindle::process_test {
namespace {

// A Python with the modules that examples/read_checkpoint.py needs; "" if there is none.
std::string python() {
  for (const char* each : {"python3", "/usr/bin/python3"}) {  // another Python may come first in PATH
    Program program({"/usr/bin/env", each, "-c", "import h5py, numpy, xxhash"});
    if (program.wait().exit_code == 0) return each;
  }
  return "";
}
constexpr const char* kNoPython = "needs a python3 with h5py and xxhash";

// A script of the repository.
// For h5py on storage without file locks; rekindle itself uses none.
constexpr const char* kNoLocks = "HDF5_USE_FILE_LOCKING=FALSE";

Outcome run_script(const std::string& interpreter, const std::string& script, const Arguments& more) {
  return Program(Arguments{"/usr/bin/env", kNoLocks, interpreter, fs::path(REKINDLE_SOURCE) / script} + more)
      .wait();
}

void expect_same_tensors(const fs::path& one, const fs::path& other) {
  const auto a = checkpoint::read_safetensors(one), b = checkpoint::read_safetensors(other);
  ASSERT_TRUE(a && b);
  ASSERT_EQ(a->state.size(), b->state.size());
  for (const auto& tensor : a->state)
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, bytes_of(*b, tensor.spec.name))) << tensor.spec.name;
}

TEST_F(Interchange, FilesThatCannotBeRead_RefusedInOneLine) {
  const auto file = [&](const std::string& name, const std::string& content) {
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  };
  refused(at("no"), {"--reset-head"}, 64, "--reset-head without --init");
  refused(at("no"), {"--init", at("none.safetensors")}, 78, "none.safetensors");
  refused(at("no"), {"--init", at("none.h5")}, 78, "there is no file");
  refused(at("no"), {"--init", file("weights.pt", "PK")}, 64, "is a pickle, and a pickle is a program");
  refused(at("no"), {"--init", scratch_.path()}, 78, "neither a run directory nor a checkpoint");
  refused(at("no"), {"--init", file("x.safetensors", std::string(100, '\xff'))}, 78,
          "x.safetensors cannot be used: ");
  refused(at("no"), {"--init", file("x.h5", std::string(100, '\xff'))}, 78, "x.h5 cannot be read");
  EXPECT_FALSE(fs::exists(at("no")));

  const fs::path weights = initial_weights("1", "weights.h5");
  const std::string good = *read_text(weights);
  // libhdf5 crashes on some of these files; a sanitizer report about that is not useful.
  ::setenv("ASAN_OPTIONS", "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0", 1);
  for (std::size_t i = 0; i < 2000; i += 53) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x55);
    const Outcome outcome = run({"import", file("bad.h5", bad), at("out.safetensors")});
    EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 78) << i << ": " << outcome.exit_code;
    EXPECT_LE(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(Interchange, TheReaderOfAnH5File_HasGivenUpItsRights) {
  if (!kCanConfine) REKINDLE_SKIP(Needs::kMachine, "sanitizers need more rights than a confined process has");
  const fs::path weights = initial_weights("1", "weights.h5");
  const std::string preload = "LD_PRELOAD=" REKINDLE_CURIOUS;
  const Outcome outcome =
      Program({"/usr/bin/env", preload, rekindle(), "import", weights, at("out.safetensors")}).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(times_in(outcome.err, "curious: network no, other file no, process no\n"), 1U) << outcome.err;
}

// libhdf5 may crash like this on a malicious file.
TEST_F(Interchange, AReaderThatIsKilled_IsOneLineAndNothingIsWritten) {
  const fs::path weights = initial_weights("1", "weights.h5");
  // SIGXFSZ is sent to the first process that writes more than a few bytes: the reader.
  Program program({"/usr/bin/prlimit", "--fsize=4000", rekindle(), "import", weights, at("out.safetensors")});
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_NE(outcome.err.find("weights.h5 cannot be read: its reader was ended by signal"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_FALSE(fs::exists(at("out.safetensors")));
}

TEST_F(Interchange, AFileThatTakesTooMuchMemory_IsOneLineAndNothingIsWritten) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  REKINDLE_SKIP(Needs::kMachine,
                "a sanitizer reserves more address space than the reader may have: its limit is off");
#endif
  const std::string interpreter = python();
  if (interpreter.empty()) REKINDLE_SKIP(Needs::kSetup, kNoPython);
  // 4 MiB that claim 3 GiB: less than deflation could save, and more than weights deflate.
  const char* const script =
      "import h5py, numpy, sys\n"
      "with h5py.File(sys.argv[1], 'w') as file:\n"
      "  file['small'] = numpy.zeros(2**20, '<f4')\n"
      "  file.create_dataset('weight', (3 * 2**28,), '<f4', chunks=(2**20,), compression='gzip')\n";
  Program writer({"/usr/bin/env", kNoLocks, interpreter, "-c", script, at("claims.h5")});
  ASSERT_EQ(writer.wait().exit_code, 0);
  const Outcome outcome = run({"import", at("claims.h5"), at("out.safetensors")});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.err;
  EXPECT_NE(outcome.err.find("claims.h5 cannot be read: dataset 'weight': it claims 3221225472 bytes"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_FALSE(fs::exists(at("out.safetensors")));
}

// examples/read_checkpoint.py was written only from the description of the format.
TEST_F(Interchange, AReaderInAnotherLanguage_LoadsCheckpointsAndFindsDamage) {
  const std::string interpreter = python();
  if (interpreter.empty()) REKINDLE_SKIP(Needs::kSetup, kNoPython);
  ASSERT_EQ(run(mnist_run(at("run"), 2, 3)).exit_code, 0);
  const fs::path saved = checkpoint::directory_of(at("run"), checkpoint::list_committed(at("run")).at(0));
  const auto manifest = checkpoint::read_manifest(saved);
  ASSERT_TRUE(manifest);
  const auto read = [&] { return run_script(interpreter, "examples/read_checkpoint.py", {saved}); };
  std::string digest = digest_of(at("run"));
  const Outcome whole = read();
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_NE(whole.out.find("ok: step 3, "), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("digest " + digest), std::string::npos) << whole.out;
  // h5py reads the same tensors: their rows in the shards, and all of them in whole.h5.
  const auto see = [&](const Arguments& more) {
    return run_script(interpreter, "tests/oracle/check_shard.py", Arguments{saved} + more);
  };
  const Outcome seen = see({});
  EXPECT_EQ(seen.exit_code, 0) << seen.out << seen.err;
  const std::string all = str(", ", manifest->contents.tensors.size(), " in whole.h5");
  EXPECT_NE(seen.out.find(all), std::string::npos) << seen.out;
  fs::remove(saved / "whole.h5");
  const Outcome missing = see({}), without = see({"--without-whole"});
  EXPECT_EQ(missing.exit_code, 1) << missing.out;
  EXPECT_NE(missing.err.find("whole.h5 is missing"), std::string::npos) << missing.err;
  EXPECT_EQ(without.exit_code, 0) << without.err;
  EXPECT_NE(without.out.find("no in whole.h5"), std::string::npos) << without.out;
  // Changes a byte of a tensor; such readers ignore the bytes between tensors.
  const checkpoint::ShardEntry& shard = manifest->shards.at(1);
  for (const auto& [file, at] :
       {std::pair<std::string, std::uint64_t>{shard.file, shard.datasets.at(0).offset},
        {"manifest.json", 1000}}) {
    const std::string good = *read_text(saved / file);
    std::string bad = good;
    bad[at] ^= 1;
    std::ofstream(saved / file, std::ios::binary) << bad;
    const Outcome damaged = read();
    EXPECT_EQ(damaged.exit_code, 1) << file;
    EXPECT_NE(damaged.err.find("damaged"), std::string::npos) << damaged.err;
    std::ofstream(saved / file, std::ios::binary) << good;
  }
  EXPECT_EQ(read().exit_code, 0);
}

// Scalars, tensors without elements, half precision, integers, rows of every length.
TEST_F(Interchange, AReaderInAnotherLanguage_LoadsTensorsOfEveryKind) {
  const std::string interpreter = python();
  if (interpreter.empty()) REKINDLE_SKIP(Needs::kSetup, kNoPython);
  const checkpoint::CheckpointId id{3, 1, 1};
  const checkpoint::OwnedState owned(checkpoint::mixed_spec());
  fs::create_directory(at("run"));
  const checkpoint::Manifest manifest = checkpoint::write_checkpoint(at("run"), id, owned.state, 3);
  const Outcome read =
      run_script(interpreter, "examples/read_checkpoint.py", {checkpoint::directory_of(at("run"), id)});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  EXPECT_NE(read.out.find("digest " + manifest.digest), std::string::npos) << read.out;
  for (const char* name : {"mixed.pt", "mixed.h5"})
    ASSERT_TRUE(checkpoint::write_tensors(at(name), owned.state)) << name;
  const Outcome same = run_script(interpreter, "tests/oracle/check_pt.py", {at("mixed.pt"), at("mixed.h5")});
  EXPECT_EQ(same.exit_code, 0) << same.err;
}

// tests/oracle/check_pt.py was written from the behaviour of torch.load.
TEST_F(Interchange, ExportsForPyTorchAndForHdf5_HoldTheSameTensors) {
  const std::string interpreter = python();
  if (interpreter.empty()) REKINDLE_SKIP(Needs::kSetup, kNoPython);
  ASSERT_NO_FATAL_FAILURE(finish(at("run"), 3, {}));
  for (const char* name : {"all.pt", "all.h5"})
    ASSERT_EQ(run({"export", at("run"), at(name), "--with-optimizer"}).exit_code, 0) << name;
  const auto check = [&](const fs::path& pt, const fs::path& h5) {
    return run_script(interpreter, "tests/oracle/check_pt.py", {pt, h5});
  };
  const Outcome same = check(at("all.pt"), at("all.h5"));
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.out, "ok: 24 tensors\n");

  // The script must find: tensors that one file lacks, one flipped bit, a damaged file.
  const auto differs = [&](const fs::path& pt, const fs::path& h5, const std::string& what) {
    const Outcome outcome = check(pt, h5);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << what << "\nsaid: " << outcome.err;
  };
  ASSERT_EQ(run({"export", at("run"), at("weights.h5")}).exit_code, 0);
  differs(at("all.pt"), at("weights.h5"), "only in one of both: ['acc_delta.conv1.bias'");
  const auto loaded =
      checkpoint::load(checkpoint::directory_of(at("run"), checkpoint::list_committed(at("run")).at(0)));
  ASSERT_TRUE(loaded) << loaded.error().line();
  loaded->state.back().bytes.back() ^= std::byte{1};
  ASSERT_TRUE(checkpoint::write_tensors(at("other.h5"), loaded->state));
  differs(at("all.pt"), at("other.h5"), "acc_delta.fc2.bias: other bytes");
  std::string bad = *read_text(at("all.pt"));
  bad[bad.size() / 2] ^= 1;
  std::ofstream(at("bad.pt"), std::ios::binary) << bad;
  differs(at("bad.pt"), at("all.h5"), "a CRC does not match");
}

TEST_F(Interchange, ImportTurnsOneKindOfFileIntoAnother) {
  const fs::path h5 = initial_weights("1", "weights.h5"),
                 safetensors = initial_weights("1", "weights.safetensors");
  ASSERT_EQ(run({"import", h5, at("imported.safetensors")}).exit_code, 0);
  expect_same_tensors(safetensors, at("imported.safetensors"));
  ASSERT_EQ(run({"import", safetensors, at("again.h5")}).exit_code, 0);
  ASSERT_EQ(run({"import", at("again.h5"), at("back.safetensors")}).exit_code, 0);
  expect_same_tensors(safetensors, at("back.safetensors"));
  ASSERT_EQ(run({"import", safetensors, at("again.pt")}).exit_code, 0);
  if (const std::string interpreter = python(); !interpreter.empty()) {
    const Outcome same =
        run_script(interpreter, "tests/oracle/check_pt.py", {at("again.pt"), at("again.h5")});
    EXPECT_EQ(same.exit_code, 0) << same.err;
    EXPECT_EQ(same.out, "ok: 8 tensors\n");
  }
  const Outcome there = run({"import", h5, at("imported.safetensors")});
  EXPECT_EQ(there.exit_code, 78);
  EXPECT_EQ(there.err, str("rekindle: ", at("imported.safetensors").string(),
                           " is there already: add --force to overwrite it\n"));
  EXPECT_EQ(run({"import", "--force", h5, at("imported.safetensors")}).exit_code, 0);
  ASSERT_EQ(run({"import", safetensors, at("again.npz")}).exit_code, 64);
  EXPECT_FALSE(fs::exists(at("again.npz")));
}

}  // namespace
}  // namespace rekindle::process_test
