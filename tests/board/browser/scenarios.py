"""The made-up runs by their names."""

from made_up import HOSTILE, make_run


def scenario(name):
    """A run for each word that a test or a person may want to look at."""
    if name == "running":
        return make_run()
    if name == "lost":
        return make_run(
            "resnet50-imagenet",
            steps=4000,
            step=1700,
            attempts=3,
            hosts=4,
            devices=2,
            gpu=True,
            lost=(3,),
            slow=(6,),
            generations_each=2,
            step_s=2.2,
        )
    if name == "big":
        return make_run(
            "big",
            steps=1_200_000,
            step=1_000_000,
            attempts=200,
            hosts=8,
            devices=8,
            gpu=True,
            generations_each=5,
            step_s=2.0,
            pending_s=900.0,
            lost=(5, 12, 40),
            slow=(9,),
            build=True,
        )
    if name == "finished":
        return make_run("mnist", step=400, state="finished", attempts=1)
    if name == "failed":
        run = make_run("diverged", step=120, state="failed", attempts=2)
        run.base["attempts"][-1]["why"] = (
            "no trainer is left, and no checkpoint could be read: data/step-40: No space left on device"
        )
        run.base.update(loss=None, seconds_left=None, images_per_second=None, training_ratio=None, voided_steps=4)
        run.base["warnings"] = [{"at": "2026-11-26T12:14:01.310Z", "level": "error", "text": "No space left on device"}]
        return run
    if name == "new":
        run = make_run("soon", step=1, attempts=1)
        keep = {
            "name": "soon",
            "directory": "/shared/runs/soon",
            "state": "pending",
            "problem": "",
            "steps": 400,
            "step": 0,
            "attempt": 0,
        }
        run.base = {**{key: ([] if isinstance(value, list) else None) for key, value in run.base.items()}, **keep}
        return run
    if name == "empty":
        run = make_run("gone", step=1, attempts=1)
        run.base = {
            "name": "gone",
            "state": "new",
            "problem": "There is no run in /shared/runs/gone: no run.json.",
            "step": None,
            "steps": None,
        }
        return run
    if name == "hostile":
        run = make_run("".join(HOSTILE[:2]), lost=(1,), slow=(2,))
        base = run.base
        base.update(directory=HOSTILE[2], problem=HOSTILE[1], job=HOSTILE[0], state="<b>x</b>")
        for lists in ("trainers", "lanes", "generations", "attempts", "checkpoints", "events", "warnings"):
            for number, one in enumerate(base[lists]):
                for key, value in one.items():
                    if isinstance(value, str) and key not in ("at", "began", "ended"):
                        one[key] = HOSTILE[number % len(HOSTILE)]
                    elif (
                        isinstance(value, (int, float))
                        and not isinstance(value, bool)
                        and number % 3 == 1
                        and key != "attempt"
                    ):
                        one[key] = None
        run.curves[HOSTILE[1]] = run.curves["lr"]
        base["metrics"] = [HOSTILE[1], "loss", "constructor", "__proto__"]
        base["step_ms"]["exchange"] = None
        return run
    raise SystemExit(f"no scenario {name}")


SCENARIOS = ("running", "lost", "big", "finished", "failed", "new", "empty", "hostile")
