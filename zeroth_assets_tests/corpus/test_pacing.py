from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from zeroth_assets.corpus import pacing
from zeroth_assets.corpus.pacing import Ceilings, Pacer, is_sec, pacing_key
from zeroth_assets.errors import AcquisitionError


class FakeTime:
    """A clock that only a sleep moves."""

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def pacer(folder: Path, fake: FakeTime, rate: float = 4.0) -> Pacer:
    return Pacer(folder, Ceilings(hosts={"example.org": rate}), clock=fake.clock, sleep=fake.sleep)


def test_n_requests_take_n_minus_1_intervals_from_the_opening_second_on(tmp_path: Path) -> None:
    fake = FakeTime()
    paced = pacer(tmp_path, fake)
    grants = []
    for _ in range(9):
        paced.wait("example.org")
        grants.append(fake.now)
    assert grants[0] == 1000.0
    assert [b - a for a, b in itertools.pairwise(grants)] == pytest.approx([0.25] * 8)


def test_an_idle_hour_earns_one_token_and_no_more(tmp_path: Path) -> None:
    fake = FakeTime()
    paced = pacer(tmp_path, fake)
    paced.wait("example.org")
    fake.now += 3600
    started = fake.now
    for _ in range(3):
        paced.wait("example.org")
    assert fake.now - started == pytest.approx(0.5)


def test_a_second_pacer_continues_where_the_first_left(tmp_path: Path) -> None:
    fake = FakeTime()
    pacer(tmp_path, fake).wait("example.org")
    pacer(tmp_path, fake).wait("example.org")
    assert fake.slept == [0.25]


def test_hosts_do_not_wait_for_each_other(tmp_path: Path) -> None:
    fake = FakeTime()
    paced = Pacer(tmp_path, Ceilings(), clock=fake.clock, sleep=fake.sleep)
    for host in ("a.example", "b.example", "sec.gov"):
        paced.wait(host)
    assert fake.slept == []


def test_a_clock_that_restarted_at_a_reboot_costs_at_most_one_interval(tmp_path: Path) -> None:
    pacer(tmp_path, FakeTime(1_000_000.0)).wait("example.org")
    rebooted = FakeTime(5.0)
    pacer(tmp_path, rebooted).wait("example.org")
    assert rebooted.slept == [0.25]


def test_a_state_file_of_noise_costs_one_interval_and_is_replaced(tmp_path: Path) -> None:
    fake = FakeTime()
    (tmp_path / "example.org.state").write_bytes(b"\x00\xffnoise" * 40)
    pacer(tmp_path, fake).wait("example.org")
    assert fake.slept == [0.25]


def test_a_sleep_that_ends_early_does_not_let_a_request_through(tmp_path: Path) -> None:
    fake = FakeTime()

    def nap(seconds: float) -> None:
        fake.sleep(seconds * 0.6 if seconds > 0.01 else seconds)

    paced = Pacer(tmp_path, Ceilings(hosts={"example.org": 4.0}), clock=fake.clock, sleep=nap)
    for _ in range(3):
        paced.wait("example.org")
    assert fake.now >= 1000.5


def test_a_hold_binds_every_process_and_ends(tmp_path: Path) -> None:
    fake = FakeTime()
    pacer(tmp_path, fake).hold("example.org", 30)
    other = pacer(tmp_path, fake)
    other.wait("example.org")
    assert fake.now == pytest.approx(1030)
    other.wait("example.org")
    assert fake.now == pytest.approx(1030.25)


def test_a_hold_binds_an_unpaced_host_too(tmp_path: Path) -> None:
    fake = FakeTime()
    paced = Pacer(tmp_path, Ceilings(), clock=fake.clock, sleep=fake.sleep)
    paced.hold("127.0.0.1", 7)
    paced.wait("127.0.0.1")
    assert fake.slept == [7]


def test_loopback_is_unpaced_unless_named() -> None:
    assert Ceilings().rate("127.0.0.1") is None
    assert Ceilings().rate("localhost") is None
    assert Ceilings(hosts={"127.0.0.1": 3.0}).rate("127.0.0.1") == 3.0
    assert Ceilings().rate("127.0.0.1.example.org") == 5.0


def test_all_names_of_sec_gov_share_a_bucket_of_eight_and_others_get_five() -> None:
    keys = {pacing_key(f"https://{host}/x") for host in ("sec.gov", "www.sec.gov", "data.SEC.gov", "www.sec.gov:443")}
    assert keys == {"sec.gov"}
    assert (Ceilings().rate("sec.gov"), Ceilings().rate("www.rfc-editor.org")) == (8.0, 5.0)
    assert not is_sec("notsec.gov")
    assert not is_sec("sec.gov.example.org")


def test_a_lock_that_a_hung_process_keeps_ends_in_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LOCK_PATIENCE_SECONDS", 0.05)
    with FileLock(tmp_path / "example.org.lock"), pytest.raises(AcquisitionError, match=r"example\.org\.lock"):
        pacer(tmp_path, FakeTime()).wait("example.org")


def test_threads_of_one_process_share_the_bucket(tmp_path: Path) -> None:
    paced = Pacer(tmp_path, Ceilings(hosts={"example.org": 50.0}))
    grants: list[float] = []

    def work() -> None:
        for _ in range(4):
            paced.wait("example.org")
            grants.append(time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(4)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(grants) - started >= 15 / 50


_CHILD = """
import sys, time
from pathlib import Path
from zeroth_assets.corpus.pacing import Ceilings, Pacer
paced = Pacer(Path(sys.argv[1]), Ceilings(hosts={"example.org": 40.0}))
for _ in range(int(sys.argv[2])):
    paced.wait("example.org")
    print(time.monotonic(), flush=True)
"""


def _child(folder: Path, requests: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(folder), str(requests)], stdout=subprocess.PIPE, text=True
    )


def test_processes_share_the_bucket_even_when_one_of_them_is_killed(tmp_path: Path) -> None:
    victim = _child(tmp_path, 10_000)
    assert victim.stdout is not None
    first = float(victim.stdout.readline())
    others = [_child(tmp_path, 10) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in others]
    os.kill(victim.pid, signal.SIGKILL)
    rest, _ = victim.communicate()
    last = _child(tmp_path, 2).communicate(timeout=60)[0]
    grants = sorted([first, *(float(x) for text in (*outputs, rest, last) for x in text.split() if "." in x)])
    assert len(grants) > 20
    # Each stamp is taken a moment after its grant, so neighbours may look closer; the whole span may not.
    assert grants[-1] - grants[0] >= (len(grants) - 1) / 40 - 0.02
