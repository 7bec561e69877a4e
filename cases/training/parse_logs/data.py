"""An untidy training log and, for the judge alone, what really happened."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

STEPS = 10
BROKEN = (("nan", "0.512406"), ("0.671359", "nan"), ("inf", "0.498113"))
TRACEBACK = """Traceback (most recent call last):
  File "/job/train.py", line {line}, in main
    trainer.run(epochs)
  File "/job/trainer.py", line {other}, in run
    self.one_epoch(epoch)
{error}"""


@dataclass
class Run:
    """One training run: its records in order of time, as (time, worker, text)."""

    id: str
    clock: datetime
    epochs: int
    rng: random.Random
    records: list[tuple[datetime, int, str]] = field(default_factory=list)
    last: tuple[float, float] = (math.nan, math.nan)

    def log(self, worker: int, level: str, text: str, seconds: float = 1.0) -> None:
        self.clock += timedelta(milliseconds=round(1000 * seconds * self.rng.uniform(0.6, 1.4)) + 1)
        self.records.append((self.clock, worker, f"{level:<8} [run {self.id} worker {worker}] {text}"))

    def metrics(self, epoch: float, spread: float, gap: float = 0.0) -> tuple[float, float]:
        """Loss and accuracy that move to the very end; `gap` makes them those of validation."""
        done = epoch / self.epochs
        loss = (0.25 + 2.6 * math.exp(-2.8 * done)) * (1 + self.rng.gauss(0, spread)) + 0.1 * gap
        accuracy = 0.95 - 0.8 * math.exp(-2.5 * done) + self.rng.gauss(0, spread / 4) - 0.03 * gap
        return round(loss, 6), round(min(max(accuracy, 0.05), 0.999), 6)

    def epoch(self, epoch: int, broken: tuple[str, ...] = (), steps: int = STEPS) -> None:
        """One epoch: running values, sometimes small talk, then the two lines with its averages."""
        worker = epoch % 2
        for step in range(1, steps + 1):
            loss, accuracy = self.metrics(epoch - 1 + step / STEPS, 0.06)
            values = f"loss={'nan' if broken else f'{loss:.6f}'} accuracy={accuracy:.6f}"
            self.log(self.rng.randrange(2), "INFO", f"epoch {epoch} step {step * 40}/{STEPS * 40} {values}", 6)
        self.small_talk(epoch)
        if steps < STEPS:
            return
        loss, accuracy = self.metrics(epoch, 0.03)
        told = broken or (f"{loss:.6f}", f"{accuracy:.6f}")
        self.last = self.last if broken else (loss, accuracy)
        told_as = "epoch {} finished [train] loss={} accuracy={}".format(epoch, *told)
        self.log(worker, "WARNING" if broken else "INFO", told_as)
        loss, accuracy = self.metrics(epoch, 0.03, gap=1)
        self.log(worker, "INFO", f"epoch {epoch} finished [valid] loss={loss:.6f} accuracy={accuracy:.6f}", 5)

    def small_talk(self, epoch: int) -> None:
        worker = self.rng.randrange(2)
        chance = self.rng.random()
        if chance < 0.10:
            self.log(worker, "INFO", f"checkpoint of epoch {epoch - 1} written to /scratch/{self.id}")
        elif chance < 0.15:
            self.log(worker, "WARNING", f"memory of GPU {worker} is {self.rng.randint(88, 97)} % full")
        elif chance < 0.20:
            self.log(worker, "WARNING", f"loading was slow, {self.rng.uniform(2, 9):.1f} s for a batch")
        elif chance < 0.25:
            self.quotes(worker, epoch - 1)

    def quotes(self, worker: int, epoch: int) -> None:
        """A record of another kind that looks like the one of an epoch: only whole records count."""
        loss, accuracy = self.metrics(epoch, 0.03)
        self.log(worker, "INFO", f"best: epoch {epoch} finished [train] loss={loss:.6f} accuracy={accuracy:.6f}")

    def fails(self, worker: int, where: str, error: str) -> None:
        numbers = {"line": self.rng.randint(80, 140), "other": self.rng.randint(150, 320)}
        self.log(worker, "ERROR", f"{where} failed\n{TRACEBACK.format(error=error, **numbers)}")


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Two runs in one log: an earlier one, and the one in question with the opposite end."""
    rng = random.Random(seed)
    succeeds = rng.random() < 0.25
    # What was started last is not last in the order of names.
    second, first = sorted(rng.sample(range(0x1000, 0x10000), 2))
    began = datetime(2026, 1, 6, 10) + timedelta(hours=rng.randrange(2000))
    earlier = Run(f"{first:04x}", began, rng.randint(90, 130), rng)
    earlier_run(earlier, completes=not succeeds)
    run = Run(f"{second:04x}", earlier.clock + timedelta(minutes=rng.randint(5, 90)), rng.randint(160, 240), rng)
    error = main_run(run, succeeds)
    # It also fails once more between the failure in question and the end.
    earlier.clock = run.clock
    clean_up(earlier)
    run.clock = earlier.clock
    ends(run, succeeds)
    # The earlier run has the last record of all: what comes last is not of the run that started last.
    earlier.clock = run.clock + timedelta(minutes=rng.randint(5, 90))
    clean_up(earlier)
    # Midnight falls into the run in question, so that the time of day alone gives another order.
    midnight = run.records[rng.randrange(len(run.records) // 4, len(run.records) // 2)][0]
    later = midnight.replace(hour=0, minute=0, second=0) + timedelta(days=1) - midnight
    records = [f"{(time + later).isoformat(' ', 'milliseconds')} {text}" for time, text in late_blocks(earlier, run)]
    (public / "training").mkdir()
    (public / "training" / "training_logs.txt").write_text("\n".join(records) + "\n", encoding="utf-8")
    kind, _, message = error.partition(": ")
    record = {
        "status": "success" if succeeds else "failed",
        "loss": run.last[0],
        "accuracy": run.last[1],
        "kind": kind,
        "message": message,
    }
    (hidden / "record.json").write_text(json.dumps(record, indent=1) + "\n")


def starts(run: Run) -> None:
    settings = {"batch_size": 32, "learning_rate": 0.001, "optimizer": "Adam", "epochs": run.epochs}
    run.log(0, "INFO", f"run {run.id} starts")
    run.log(0, "INFO", "configuration:\n" + json.dumps(settings, indent=4))


def ends(run: Run, completes: bool) -> None:
    """The line that tells how the run ended, and a clean-up that goes wrong without any meaning."""
    if completes:
        run.log(0, "INFO", f"run {run.id} completed all {run.epochs} epochs")
    else:
        run.log(0, "CRITICAL", f"run {run.id} aborted, exit status 1")
    clean_up(run)


def clean_up(run: Run) -> None:
    size, host = run.rng.randint(100, 999), run.rng.randint(2, 250)
    run.fails(0, "clean-up", f"ConnectionError: upload of {size} MB to 10.1.{host}.7:9000 was refused")
    run.log(0, "WARNING", "clean-up failure ignored")


def earlier_run(run: Run, completes: bool) -> None:
    starts(run)
    final = run.epochs if completes else run.epochs - run.rng.randint(5, 20)
    for epoch in range(1, final + 1):
        run.epoch(epoch)
    if not completes:
        run.fails(final % 2, f"epoch {final + 1}", _error(run.rng, run.rng.randrange(5)))
    ends(run, completes)
    run.log(0, "INFO", f"final metrics: loss={run.last[0]:.6f} accuracy={run.last[1]:.6f}")


def main_run(run: Run, succeeds: bool) -> str:
    """Two failures with a rollback, some broken epochs; then success, or the failure that ends it. The last failure."""
    rng = run.rng
    fatal_kind, other_kind = rng.sample(range(5), 2)
    # A run that succeeds stumbles over its final checkpoint, so that it does its last epochs twice.
    late = run.epochs + 1 if succeeds else round(run.epochs * rng.uniform(0.7, 0.85))
    crashes = [round(run.epochs * rng.uniform(0.3, 0.45)), late]
    broken = dict(zip(rng.sample(range(10, crashes[0] - 12), 3), BROKEN, strict=True))
    starts(run)
    epoch = 1
    error = ""
    # The first recovered failure is of the same kind as the fatal one, with other numbers.
    for crash, kind in zip(crashes, [fatal_kind, other_kind], strict=True):
        while epoch < crash:
            run.epoch(epoch, broken=broken.get(epoch, ()))
            epoch += 1
        if crash <= run.epochs:
            run.epoch(crash, steps=rng.randint(1, STEPS - 2))
        error = _error(rng, kind)
        run.fails(crash % 2, f"epoch {crash}" if crash <= run.epochs else "final checkpoint", error)
        checkpoint = crash - rng.randint(9, 12)
        run.log(crash % 2, "WARNING", f"recovered: going on from the checkpoint of epoch {checkpoint}", 90)
        epoch = checkpoint + 1
    # A fatal failure comes before the run has caught up: the highest epoch number in the log is not the last epoch.
    # Whatever the end, the last epochs are broken in every way, and a record that quotes an epoch follows.
    dead = run.epochs if succeeds else epoch + rng.randint(4, 6)
    for number in range(epoch, dead - 2):
        run.epoch(number)
    for number, values in enumerate(rng.sample(BROKEN, 3), dead - 2):
        run.epoch(number, values)
    run.quotes(dead % 2, dead - 3)
    if not succeeds:
        run.epoch(dead + 1, steps=rng.randint(1, STEPS - 2))
        error = _error(rng, fatal_kind)
        run.fails((dead + 1) % 2, f"epoch {dead + 1}", error)
    return error


def late_blocks(earlier: Run, run: Run) -> Iterator[tuple[datetime, str]]:
    """The records as they reach the file: each worker hands over its own in blocks, some of them late."""
    blocks: list[tuple[datetime, bool, list[tuple[datetime, str]]]] = []
    for part in (earlier, run):
        for worker in (0, 1):
            mine = [(time, text) for time, who, text in part.records if who == worker]
            tail = len(mine) - run.rng.randint(45, 70)
            start = 0
            while start < len(mine):
                # The tail is one block, so that the two workers' last epochs never stand in the order of time.
                stop = len(mine) if start >= tail else min(start + run.rng.randint(8, 60), tail)
                blocks.append((mine[stop - 1][0], stop == len(mine), mine[start:stop]))
                start = stop
    # The start of the old run reaches the file behind that of the new one.
    in_time = sorted((block for block in blocks[1:] if not block[1]), key=lambda block: block[0])
    old_0, old_1, new_0, new_1 = (block for block in blocks if block[1])
    # Worker 0's last block of the old run ends the file; of the new run's last two, that with the answer comes first.
    needle = f"[train] loss={run.last[0]:.6f} accuracy={run.last[1]:.6f}"
    tails = [new_0, new_1] if any(needle in text for _, text in new_0[2]) else [new_1, new_0]
    place = sum(block[0] < run.records[0][0] for block in in_time)
    for _, _, texts in [*in_time[:place], old_1, *in_time[place:], blocks[0], *tails, old_0]:
        yield from texts


def _error(rng: random.Random, kind: int) -> str:
    node = f"jülich-{rng.randint(1, 40)}"
    errors = [
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate: {rng.uniform(0.5, 4):.2f} GiB. "
        f"GPU 0 of {node} has 15.77 GiB; {rng.randint(100, 490)}.{rng.randint(10, 99)} MiB is free.",
        f"RuntimeError: DataLoader worker (pid {rng.randint(1000, 60000)}; {node}) is killed by signal: Bus error.",
        f"OSError: [Errno 28] No space left on device; {node}: /scratch/blob_{rng.randint(100000, 999999)}.",
        f"torch.AcceleratorError: CUDA error: illegal memory access at 0x{rng.randrange(16**10):010x}; {node}.",
        f"PIL.UnidentifiedImageError: sample {rng.randint(10000, 99999)}; {node}:/shard_{rng.randint(0, 511)} ends.",
    ]
    return errors[kind]
