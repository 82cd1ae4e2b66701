"""The suite over a sound database: nothing gets through, everything was attempted, nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zeroth_assets import cli_security
from zeroth_assets.errors import MeasurementError
from zeroth_assets.search import lexical
from zeroth_assets.security import (
    SecurityBreachError,
    SecurityReport,
    attacks_postings,
    check_ground,
    security_check,
)
from zeroth_assets.security.ground import Ground
from zeroth_assets.security.matrix import COMMANDS, MATRIX
from zeroth_assets.security.model import Probe, Record, conclude
from zeroth_assets.security.residual import paired_interval
from zeroth_assets.security.seed import WORDS, Seeded, copy_of
from zeroth_assets.security.suite import PROBES, run_probes
from zeroth_assets.store import acl
from zeroth_assets.store.connect import Database
from zeroth_assets.store.migrate import migrate
from zeroth_assets_tests.store.builders import prepared

GUARDED = (
    "create table zeroth.later (tenant_id int not null, content text);"
    " alter table zeroth.later enable row level security; alter table zeroth.later force row level security;"
    " create policy app_reads on zeroth.later for select to zeroth_app"
    " using (tenant_id = any ((select zeroth.permitted_tenants())::int[]));"
    " create policy loader_keeps on zeroth.later to zeroth_loader"
    " using (tenant_id = (select zeroth.loading_tenant())) with check (tenant_id = (select zeroth.loading_tenant()));"
    " select zeroth.forgo_statistics('zeroth.later'); grant select on zeroth.later to zeroth_app"
)
STATE = (
    """select string_agg(c.oid::regclass::text || coalesce(c.relacl::text, '') || c.relrowsecurity, ',' order by c.oid)
       from pg_class c where c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'""",
    """select string_agg(r.rolname || r.rolsuper || r.rolbypassrls || coalesce(m.roleid::text, ''), ',' order by r.oid)
       from pg_roles r left join pg_auth_members m on m.member = r.oid where r.rolname ~ '^zeroth'""",
    "select count(*)::text || sum(hashtext(t::text)::int8) from zeroth.chunk_1 t",
    "select string_agg(t::text, ',' order by t::text) from zeroth_acl.grant_ t",
    "select count(*)::text || max(oid) from pg_proc",
)


def state_of(db: Database) -> list[str]:
    with db.admin() as admin:
        return [str((admin.execute(query.encode()).fetchone() or ("",))[0]) for query in STATE]


@pytest.fixture(scope="module")
def checked(seeded: Seeded) -> tuple[SecurityReport, list[str], list[str]]:
    before = state_of(seeded.db)
    report = check_ground(seeded.ground(), repetitions=40)
    return report, before, state_of(seeded.db)


@pytest.fixture
def copied(seeded: Seeded) -> Iterator[Ground]:
    with copy_of(seeded, "security_copy") as db:
        ground = seeded.ground(db)
        ground.brief = True
        yield ground
        ground.reset()


def test_no_probe_gets_through_a_sound_database(checked: tuple[SecurityReport, list[str], list[str]]) -> None:
    report, _, _ = checked
    assert {result.name: result.breaches for result in report.breached} == {}
    assert report.exit_code == 0
    report.require()


def test_every_probe_attempted_something_or_says_why_not(
    checked: tuple[SecurityReport, list[str], list[str]],
) -> None:
    report, _, _ = checked
    assert len(report.probes) == len(PROBES)
    assert {result.name for result in report.probes if not result.tries} == {"memo of embeddings"}
    assert all(result.reason for result in report.probes if result.status == "skipped")
    matrix = next(result for result in report.probes if result.name == MATRIX.name)
    assert matrix.tries > len(report.relations) * len(report.identities) * (len(COMMANDS) - 4)


def test_words_of_others_are_attacked_and_a_lexical_arm_that_takes_everybodys_postings_is_caught(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = seeded.ground()
    sound = {result.name: result for result in run_probes(ground, attacks_postings.PROBES)}
    assert {result.status for result in sound.values()} == {"held"}
    assert sound["postings: words of others"].tries > len(WORDS)

    def everybody(_: object) -> dict[str, int]:
        return dict(ground.tenants)

    monkeypatch.setattr(lexical, "permitted", everybody)
    (broken,) = run_probes(ground, attacks_postings.PROBES[:1])
    assert any("scores stand on" in breach for breach in broken.breaches)
    ground.reset()


def test_the_suite_changes_nothing(checked: tuple[SecurityReport, list[str], list[str]]) -> None:
    _, before, after = checked
    assert before == after


def test_every_identity_of_the_suite_stands_in_it(checked: tuple[SecurityReport, list[str], list[str]]) -> None:
    report, _, _ = checked
    assert {
        "no claim",
        "empty claim",
        "another tenant's claim",
        "forged code",
        "expired claim",
        "retired key",
        "plain setting, unsigned",
        "principal without grants",
        "own claim",
    } <= set(report.identities)


def test_the_retired_key_is_one_that_once_was_accepted(seeded: Seeded) -> None:
    ground = seeded.ground()
    assert ground.cast.named("retired key").claim.split(".")[1] == seeded.retired.key_id
    with seeded.db.owner() as owner:
        row = owner.execute(
            "select retired_at <= clock_timestamp() from zeroth_acl.claim_key where key_id = %s",
            (seeded.retired.key_id,),
        ).fetchone()
    assert row == (True,)


def test_a_table_that_is_added_is_tested_by_being_there(copied: Ground, seeded: Seeded) -> None:
    with copied.db.owner(autocommit=True) as owner:
        owner.execute(GUARDED)
    with copied.db.admin(autocommit=True) as admin:
        admin.execute("insert into zeroth.later values (1, 'a'), (2, 'b')")
    ground = seeded.ground(copied.db)
    ground.brief = True
    assert "zeroth.later" in {relation.path for relation in ground.relations}
    assert [result.breaches for result in run_probes(ground, [MATRIX])] == [()]
    with copied.db.owner(autocommit=True) as owner:
        owner.execute("alter policy app_reads on zeroth.later using (tenant_id = 2 or content = 'a')")
    (result,) = run_probes(ground, [MATRIX])
    ground.reset()
    assert any("zeroth.later" in breach for breach in result.breaches)


def test_a_breach_is_told_without_the_words_that_came_through(copied: Ground) -> None:
    with copied.db.admin(autocommit=True) as admin:
        admin.execute("alter policy app_reads on zeroth.chunk_1 using (true)")
    # Without the casts: of a broken database, their errors are in the log of the server that other tests look at.
    results = run_probes(copied, [probe for probe in PROBES if probe.name != "error texts"])
    assert sum(result.status == "breached" for result in results) >= 8
    whole = json.dumps([result.breaches for result in results])
    assert not any(f"The {word} clause" in whole for word in WORDS.values())
    report = SecurityReport("x", "here", 3, 2, (), (), results, ())
    assert report.exit_code == SecurityBreachError.exit_code == 14
    with pytest.raises(SecurityBreachError, match="table x command x identity"):
        report.require()
    assert "**breached**" in report.to_markdown()
    assert report.to_json()["breached"]


def test_what_postgresql_leaves_to_every_role_is_measured(checked: tuple[SecurityReport, list[str], list[str]]) -> None:
    report, _, _ = checked
    found = {channel.name: channel for channel in report.channels}
    for closed in ("pg_relation_size and its like", "pg_stat_* counters", "pg_stat_activity, pg_locks"):
        assert not found[closed].open, found[closed]
    for open_ in (
        "EXPLAIN ANALYZE, Rows Removed by Filter",
        "EXPLAIN, estimated rows of a tenant",
        "pg_class.reltuples, relpages",
        "partition names and bounds",
    ):
        assert found[open_].open, found[open_]
    timed = [channel for name, channel in found.items() if name.startswith("timing")]
    assert len(timed) == 4
    assert all("95 % interval" in channel.measured and "distinguishable" in channel.measured for channel in timed)
    assert all(channel.name in report.to_markdown() for channel in report.channels)


def test_an_interval_tells_a_difference_from_none() -> None:
    same = [1.0 + (n * 7919 % 13) / 100 for n in range(200)]
    low, high = paired_interval(same, [same[(n * 31 + 5) % 200] for n in range(200)])
    assert low <= 0 <= high
    low, high = paired_interval([value + 0.5 for value in same], same)
    assert 0.49 < low <= high < 0.51


def test_a_probe_that_attempts_nothing_does_not_pass() -> None:
    probe = Probe("idle", "nothing", "nothing", lambda ground, record: None)
    assert conclude(probe, Record(), 0.0).status == "breached"


def test_a_role_that_the_service_itself_refuses_is_a_report_and_no_crash(seeded: Seeded) -> None:
    with seeded.db.admin(autocommit=True, dbname="postgres") as admin:
        admin.execute("alter role zeroth_app bypassrls")
    try:
        ground = seeded.ground()
        ground.brief = True
        results = {
            r.name: r
            for r in run_probes(ground, [p for p in PROBES if p.name in ("pooled connection", "another role")])
        }
        ground.reset()
    finally:
        with seeded.db.admin(autocommit=True, dbname="postgres") as admin:
            admin.execute("alter role zeroth_app nobypassrls")
    assert results["pooled connection"].status == "breached"
    assert "zeroth_app is, or is a member of, bypassrls" in " ".join(results["another role"].breaches)


def test_a_database_in_which_nobody_holds_anything_cannot_be_checked(fresh_database: Database) -> None:
    migrate(fresh_database)
    with pytest.raises(MeasurementError, match="nobody"):
        security_check(fresh_database)


def test_a_database_of_one_tenant_is_checked_and_says_what_it_could_not_try(fresh_database: Database) -> None:
    from zeroth_assets_tests.store.builders import load, make_chunks

    db = prepared(fresh_database)
    load(db, make_chunks(range(5)), tenant="alone")
    acl.revoke(db, "all")
    report = security_check(db, repetitions=20)
    assert {result.name: result.breaches for result in report.breached} == {}
    assert report.hidden == 0
    assert report.channels == ()
    assert {r.name for r in report.probes if r.status == "skipped"} >= {"unique and foreign-key violations"}


def test_the_command_prints_the_verdict_and_ends_with_its_code(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from zeroth_assets.store import connect

    monkeypatch.setattr(connect, "open_database", lambda *_: seeded.db)
    target = tmp_path / "report.md"
    run = CliRunner().invoke(
        cli_security.security, ["check", "--no-residual", "--json", "--report", str(target)], catch_exceptions=False
    )
    assert run.exit_code == 0
    assert json.loads(run.stdout)["breached"] == []
    assert "None got through" in target.read_text("utf-8")
