"""The order of turns and the figures of bench/pairs.py and bench/compare.py, and --before with two stand-ins for rekindle."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"
sys.path.insert(0, str(BENCH))

import compare  # noqa: E402
import contenders  # noqa: E402
import pairs  # noqa: E402


class Blocks(unittest.TestCase):
    def test_two_rounds_each_program_is_first_and_second(self):
        self.assertEqual(pairs.blocks("x", ["a", "b", "c"], 1), [["a", "x", "b"], ["c", "x"]])
        self.assertEqual(pairs.blocks("x", ["a", "b", "c"], 2), [["x", "c"], ["b", "x", "a"]])
        self.assertEqual(pairs.blocks("x", ["a"], 3), [["a", "x"]])

    def test_any_number_of_programs_is_beside_the_base(self):
        for count in range(1, 9):
            others = [str(i) for i in range(count)]
            for number in (1, 2):
                blocks = pairs.blocks("x", others, number)
                self.assertEqual(sorted(name for block in blocks for name in block if name != "x"), others)
                for block in blocks:
                    self.assertEqual(block.count("x"), 1)
                    self.assertEqual(block.index("x"), 1 if len(block) == 3 else block.index("x"))


class Figures(unittest.TestCase):
    def test_machine_that_slows_down_by_a_third_each_round_the_ratio_stays(self):
        speed = {"x": 0.9, "a": 1.0, "b": 3.0}
        turns = []

        def run(name, number):
            turns.append((number, name))
            return speed[name] * 1.1 ** len(turns)

        found = pairs.alternate("x", ["a", "b"], 12, run)
        self.assertEqual(len(turns), 36)
        self.assertEqual(turns[:6], [(1, "a"), (1, "x"), (1, "b"), (2, "b"), (2, "x"), (2, "a")])
        row = pairs.ratio_row("x", "a", found["a"])
        self.assertEqual((row.what, row.unit, len(row.values)), ("x / a", "", 12))
        self.assertAlmostEqual(min(row.values), 0.9 / 1.1)
        self.assertAlmostEqual(max(row.values), 0.9 * 1.1)
        self.assertAlmostEqual(row.median, 0.9, delta=0.005)
        self.assertAlmostEqual(pairs.ratio_row("x", "b", found["b"]).median, 0.3, delta=0.002)

    def test_inverse_ratio(self):
        row = pairs.ratio_row("x", "a", [(2.0, 1.0), (4.0, 3.0), (1.0, 1.0)], inverse=True)
        self.assertEqual((row.what, row.values, row.median), ("a / x", [0.5, 0.75, 1.0], 0.75))

    def test_table(self):
        rows = [pairs.Row("a", "s", [1.5, 0.5, 1.0]), pairs.Row("memory of b", "GB", [2.0], bound=2.25)]
        self.assertEqual(pairs.table(rows).splitlines(), [
            "                  median    least     most  values  at most",
            "a             s    1.000    0.500    1.500       3",
            "memory of b  GB    2.000    2.000    2.000       1    2.250",
        ])
        self.assertEqual(rows[1].as_json(), {"what": "memory of b", "unit": "GB", "median": 2.0, "least": 2.0, "most": 2.0,
                                             "values": [2.0], "bound": 2.25})


class Compared(unittest.TestCase):
    def turn(self, ms, gigabytes=0.0):
        return contenders.Turn([ms, ms, 3 * ms], peak_bytes=int(1e9 * gigabytes))

    def test_memory_is_bounded_by_the_budget_and_a_trainer_of_its_kind_without_a_model(self):
        turns = {"ours": [self.turn(1, 2.0), self.turn(1, 2.5)], "DDP": [self.turn(1)]}
        budget = {"parameters": 10**9, "activations": 5 * 10**8}
        rows = compare.memory_rows(turns, budget, {"C++": 10**8, "script": 3 * 10**8})
        self.assertEqual([(row.what.partition(": ")[2], row.values, row.bound) for row in rows], [
            ("ours", [2.0, 2.5], 1.8), ("budget of the model", [1.5], None), ("C++, a tiny model", [0.1], None),
            ("script, a tiny model", [0.3], None)])
        self.assertEqual([row.bound for row in compare.memory_rows(turns, {}, {})], [None])

    def test_fastest_ddp_is_found_by_the_pairs(self):
        """The medians of their times say the opposite: 0.5 and 0.55 s."""
        turns = {"ours": [self.turn(100), self.turn(400)], "slow": [self.turn(200), self.turn(800)],
                 "fast": [self.turn(110), self.turn(990)], "alone": [self.turn(90), self.turn(360)]}
        by_name = {name: compare.Contender(None, is_ddp=name in ("slow", "fast")) for name in turns}
        found = {name: list(zip(turns["ours"], turns[name])) for name in list(turns)[1:]}
        rows, fastest = compare.figures(by_name, turns, found)
        self.assertEqual(fastest, "fast")
        self.assertEqual([row.what for row in rows], [*turns, "ours / slow", "ours / fast", "ours / alone"])
        self.assertAlmostEqual(rows[0].median, 0.25)
        self.assertAlmostEqual(rows[4].median, 0.5)


class TwoBuilds(unittest.TestCase):
    def compare(self, folder, *options):
        for name in ("fast", "slow"):
            shutil.copy(HERE / "rekindle_stand_in.py", folder / name)
            (folder / name).chmod(0o755)
        return subprocess.run(
            [sys.executable, "-B", BENCH / "compare.py", "--rekindle", folder / "fast", "--before", folder / "slow",
             "--model", "mnist-cnn", "--steps", "4", "--json", folder / "figures.json", *options],
            env={**os.environ, "STAND_IN": str(folder), "TMPDIR": str(folder)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)

    def test_one_is_twice_as_fast_the_table_and_the_file_say_so(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            done = self.compare(folder, "--pairs", "2")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("rekindle / rekindle, before", done.stdout)
            found = json.loads((folder / "figures.json").read_text())
            self.assertFalse(list(folder.glob("rekindle-bench.*")))
        self.assertEqual([turn["name"] for turn in found["turns"][:4]],
                         ["rekindle, before", "rekindle", "rekindle", "rekindle, before"])
        self.assertEqual(len(found["turns"]), 4)
        self.assertEqual(found["turns"][1]["step_ms"], [110.00000000000001] * 2)
        rows = {row["what"]: row for row in found["rows"]}
        ratio = rows["rekindle / rekindle, before"]
        self.assertEqual(len(ratio["values"]), 2)
        self.assertAlmostEqual(ratio["least"], 0.5 / 1.1)
        self.assertAlmostEqual(ratio["median"], (0.5 * 1.1 + 0.5 / 1.1) / 2)
        self.assertEqual(rows["memory of a trainer: rekindle"]["median"], 2.0)
        self.assertEqual(rows["memory of a trainer: rekindle, before"]["median"], 4.0)

    def test_bf16_its_time_is_divided_by_that_of_float32(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.compare(pathlib.Path(directory), "--pairs", "1", "--bf16")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("rekindle, bf16 / rekindle ", done.stdout)

    def test_run_fails_its_words_are_shown_and_the_turns_before_it_are_kept(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "fails_at").write_text("3")
            done = self.compare(folder)
            found = json.loads((folder / "figures.json").read_text())
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 70:\nno more", done.stdout)
        self.assertIn("; 12 pairs of turns", done.stdout)
        self.assertEqual(len(found["turns"]), 3)
        self.assertEqual(found["rows"], [])

    def test_no_such_program_one_line(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.compare(pathlib.Path(directory), "--before", "/none/rekindle")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no program /none/rekindle", done.stdout)


if __name__ == "__main__":
    unittest.main()
