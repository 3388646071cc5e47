"""tools/gpu/run, as far as it goes without a GPU."""
import os
import pathlib
import subprocess
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/gpu/run"


class Parts(unittest.TestCase):
    def test_no_time_is_left_they_are_skipped_and_it_fails(self):
        for limit in "-1", "0", "4":
            with self.subTest(limit), tempfile.TemporaryDirectory() as out:
                done = subprocess.run(
                    ["bash", RUN, "--out", out, "environment", "units"], env={**os.environ, "LIMIT": limit},
                    capture_output=True, text=True,
                )  # fmt: skip
                self.assertEqual(done.returncode, 1, done.stderr)
                lines = pathlib.Path(out, "summary.txt").read_text().splitlines()
                skipped = "0 s skipped: no time left"
                self.assertEqual([" ".join(line.split()) for line in lines],
                                 [f"environment {skipped}", f"units {skipped}"])
                self.assertEqual(os.listdir(out), ["summary.txt"])

    def test_unknown_part_is_refused(self):
        done = subprocess.run(["bash", RUN, "unit"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 64)
        self.assertIn("there is no part unit: there are environment units models digests several faults", done.stderr)


if __name__ == "__main__":
    unittest.main()
