"""What stands on all tenants, and the figures of retrieval, through runs on the small corpus."""

from __future__ import annotations

import json
import random
import re
from typing import Any
from unittest import mock

import polars as pl
import pytest
from psycopg import sql

from zeroth_assets.artefacts import ArtefactStore
from zeroth_assets.errors import QueryError, RunError, SettingsError
from zeroth_assets.evaluation.queries import NoQueriesError
from zeroth_assets.planning import measured_arms, phase_assets
from zeroth_assets.settings import CHUNK_SETS, load_settings
from zeroth_assets_tests.small_corpus import ORCHARD as ORCHARD_DOCUMENT
from zeroth_assets_tests.small_corpus import ORCHARD_SMALL, SmallCorpus, remade

ORCHARD, LANTERN = "rfc-orchard-naming", "rfc-lantern-signalling"
TENANTS = ("cuad-consulting", LANTERN, ORCHARD, "sec-brf")


def artefacts(corpus: SmallCorpus) -> ArtefactStore:
    return ArtefactStore(corpus.artefacts)


def evaluations(corpus: SmallCorpus, asset: str, check: str) -> dict[str | None, Any]:
    """The last evaluation of a check, by partition."""
    with corpus.active():
        from dagster import AssetCheckKey, AssetKey

        from zeroth_assets.defs.instance import open_instance
        from zeroth_assets.defs.resources import Project

        project = Project()
        with open_instance(project.settings, project.database) as instance:
            key = AssetCheckKey(AssetKey(asset), check)
            history = instance.event_log_storage.get_asset_check_execution_history(key, limit=50)
    found: dict[str | None, Any] = {}
    for record in history:
        if record.event is not None and record.event.asset_check_evaluation is not None:
            evaluation = record.event.asset_check_evaluation
            found.setdefault(evaluation.partition, evaluation)
    return found


@pytest.mark.parametrize("chunk_set", CHUNK_SETS)
def test_the_shared_index_holds_the_rows_of_every_tenant(shared: SmallCorpus, chunk_set: str) -> None:
    store = artefacts(shared)
    parts = store.read_frame(f"shared_index_{chunk_set}")
    assert set(parts["tenant"]) == set(TENANTS)
    rows = {key: store.require(f"tenant_index_{chunk_set}", key).details["table_rows"] for key in TENANTS}
    assert dict(parts.select("tenant", "rows").iter_rows()) == rows
    assert parts["share"].sum() == pytest.approx(1.0)


def test_postings_and_rows_are_of_the_same_chunks(shared: SmallCorpus) -> None:
    found = evaluations(shared, "bm25_index_fixed_512", "agrees_with_the_database")
    assert {key: one.passed for key, one in found.items()} == dict.fromkeys(TENANTS, True)


def test_each_tenant_is_measured_alone_and_several_together_in_the_summary(shared: SmallCorpus) -> None:
    store = artefacts(shared)
    alone = pl.concat([store.read_frame("access_recall_fixed_512", key) for key in TENANTS])
    assert set(alone["principal"]) <= set(TENANTS)
    assert set(alone["tenants"]) == {1}
    assert set(alone["cross_tenant_rows"]) == {0}
    exact = alone.filter(design="partition_exact")
    assert set(exact["recall"]) == {1.0}
    assert (exact["recalls"].list.len() == exact["queries"]).all()
    wide = store.read_frame("access_recall_summary_fixed_512")
    assert "all" in set(wide["principal"])
    with shared.active():
        from zeroth_assets.defs.resources import Project
        from zeroth_assets.store.acl import list_grants

        known = {one.principal for one in list_grants(Project().database)}
    assert not {name for name in known if name.startswith("measure.")}, "left behind by the measurement"


def test_every_arm_answers_and_is_measured(shared: SmallCorpus) -> None:
    store = artefacts(shared)
    with shared.active():
        arms = measured_arms(load_settings())
    assert len(arms) == 8
    assert set(store.partitions("retrieval_runs")) == set(arms)
    assert set(store.partitions("retrieval_metrics")) == set(arms)
    queries = store.read_frame("golden_queries")
    for arm in arms:
        runs = store.read_frame("retrieval_runs", arm)
        assert set(runs.filter(role="unrestricted")["query_id"]) == set(queries["query_id"])
        assert (runs["ranking"].list.len() == runs["returned"]).all()
    exact, filtered = (
        store.read_frame("retrieval_runs", f"section_aware.{name}").filter(role="single_tenant")["returned"].sum()
        for name in ("dense_exact", "dense_postfilter")
    )
    assert filtered < exact, "a shared index under a policy comes back short"
    unchanged = evaluations(shared, "golden_set", "unchanged_unless_accepted")[None]
    assert (unchanged.passed, unchanged.severity.value) == (False, "WARN")


def test_the_pool_says_who_proposed_and_the_grades_say_who_gave_them(shared: SmallCorpus) -> None:
    store = artefacts(shared)
    pool, grades = store.read_frame("judgment_pool"), store.read_frame("golden_set")
    assert set(pool["chunk_set"]) == set(CHUNK_SETS)
    assert {"bm25", "answer passages", "dense_exact, unrestricted"} <= set(pool["contributors"].explode())
    assert set(grades["judged_by"]) == {"drafted span", "by construction: the query has no answer for its asker"}
    assert grades["tenant"].null_count() == 0
    assert store.require("judgments").details["who"]["fixed_512"].startswith("No judge is configured")


def test_no_text_of_a_document_is_in_what_dagster_keeps(shared: SmallCorpus) -> None:
    spans = artefacts(shared).read_frame("golden_queries")["spans"].explode().drop_nulls()
    quotes = [span["quote"] for span in spans]
    with shared.active():
        from zeroth_assets.defs.resources import Project

        with Project().database.admin(dbname=Project().database.dagster_name) as conn:
            events = [row[0] for row in conn.execute("select event from event_logs").fetchall()]
    assert quotes
    assert not [quote for quote in quotes for event in events if json.dumps(quote)[1:-1] in event]


def test_what_stands_on_all_tenants_is_left_out_where_that_is_asked(own: SmallCorpus) -> None:
    own.data_file("tenant_index_fixed_512", ORCHARD).unlink()
    own.drop(ORCHARD_SMALL)
    before = own.made_at()
    done = own.zeroth("materialize", "--tenant", ORCHARD, "--no-fan-ins")
    assert done.code == 0, done.out
    assert "what stands on all tenants is left out" in done.out
    late = {a for phase in ("shared", "summaries", "questions", "golden") for a in phase_assets(phase)}
    assert not late & remade(before, own.made_at())
    assert f"access_recall_fixed_512/{ORCHARD}" not in remade(before, own.made_at())


def test_one_arm_is_made_again_by_its_name(own: SmallCorpus) -> None:
    before = own.made_at()
    done = own.zeroth("materialize", "--asset", "retrieval_runs", "--partition", "fixed_512.bm25")
    assert done.code == 0, done.out
    assert remade(before, own.made_at()) == {"retrieval_runs/fixed_512.bm25"}
    wrong = own.zeroth("materialize", "--asset", "retrieval_runs", "--partition", "fixed_512.nothing")
    assert wrong.code == 6
    assert "fixed_512.bm25" in wrong.err


def lengthened(raw: bytes) -> bytes:
    """A text of many sections, each of the same words in another order: enough rows for a bad graph to lose some."""
    text = raw.decode("utf-8")
    draw = random.Random(3)
    words = re.findall(r"[a-z]{4,}", text)
    copies = []
    for number in range(100):
        draw.shuffle(words)
        sentences = [f"   The {' '.join(words[at : at + 9])}." for at in range(0, 360, 9)]
        copies.append("\n".join([f"{number + 100}.  {words[0].title()} {words[1]}", "", *sentences, ""]))
    return f"{text}\n\n{chr(10).join(copies)}".encode()


def rebuild_index(corpus: SmallCorpus, chunk_set: str, tenant: str, m: int, ef_construction: int) -> None:
    """Build the tenant's HNSW anew with other parameters and under its own name, behind the back of the product."""
    with corpus.active():
        from zeroth_assets.defs.resources import Project

        database = Project().database
    with database.owner() as conn:
        row = conn.execute(
            "select b.index_name from zeroth.index_build b join zeroth.tenant t using (tenant_id)"
            " join zeroth.chunk_set s using (chunk_set_id)"
            " where b.status = 'live' and t.tenant_key = %s and s.name = %s",
            (tenant, chunk_set),
        ).fetchone()
        assert row is not None
        index = sql.Identifier("zeroth", row[0])
        options = sql.SQL("alter index {} set (m = {}, ef_construction = {})")
        conn.execute(options.format(index, m, ef_construction))
        conn.execute(sql.SQL("reindex index {}").format(index))


def test_a_tenant_whose_index_was_spoiled_turns_red_and_stops_its_own_downstream_until_it_is_mended(
    own: SmallCorpus,
) -> None:
    """m = 2 leaves a graph that loses a quarter of the neighbours; the other tenants' figures are made and stand."""
    chunk_set = "section_aware"
    name, below = f"ann_recall_{chunk_set}", f"access_recall_{chunk_set}"
    both = ("materialize", "--asset", name, "--asset", below, "--partition")
    own.rewrite(ORCHARD_DOCUMENT, lengthened)
    assert own.zeroth("materialize", "--no-fan-ins").code == 0
    assert own.zeroth("materialize", "--asset", f"shared_index_{chunk_set}").code == 0
    assert own.zeroth(*both, ORCHARD).code == 0
    accepted = own.zeroth("baseline", "accept", "--reason", "the first figures", "--json")
    assert accepted.code == 0, accepted.err
    assert {row["figure"] for row in accepted.json} >= {"ann_recall", "access_recall", "golden_set"}

    rebuild_index(own, chunk_set, ORCHARD, 2, 4)
    before = own.made_at()
    assert {tenant: own.zeroth(*both, tenant).code for tenant in (ORCHARD, LANTERN)} == {
        ORCHARD: RunError.exit_code,
        LANTERN: 0,
    }
    found = evaluations(own, name, "no_regression")
    assert (found[ORCHARD].passed, found[ORCHARD].severity.value, found[ORCHARD].blocking) == (False, "ERROR", True)
    assert "below the accepted baseline" in found[ORCHARD].metadata["found"].value
    assert found[LANTERN].passed
    assert remade(before, own.made_at()) == {f"{name}/{ORCHARD}", f"{name}/{LANTERN}", f"{below}/{LANTERN}"}

    rebuild_index(own, chunk_set, ORCHARD, 16, 64)
    before = own.made_at()
    assert own.zeroth("materialize", "--no-fan-ins").code == 0
    assert remade(before, own.made_at()) == {f"{name}/{ORCHARD}"}
    # A graph is built at random: a query may have lost a neighbour by chance, which is not told as a regression.
    assert evaluations(own, name, "no_regression")[ORCHARD].metadata["verdict"].value in ("holds", "cannot tell")
    shown = own.zeroth("baseline", "show", "--json").json
    assert {row["reason"] for row in shown} == {"the first figures"}


def test_a_summary_of_tenants_without_a_sentence_to_ask_is_withheld_and_fails_nothing(own: SmallCorpus) -> None:
    name = "access_recall_summary_fixed_512"
    none = NoQueriesError("No sentence is fit to be a query", found="none")
    with mock.patch("zeroth_assets.defs.access_summary.asked_by", side_effect=none):
        done = own.zeroth("materialize", "--asset", name)
    assert done.code == 0, done.out
    assert artefacts(own).read_frame(name).is_empty()
    assert artefacts(own).require(name).details["withheld"] == ["nobody has a query and at least 10 rows"]
    found = evaluations(own, name, "figures_are_honest")[None]
    assert (found.passed, found.metadata["found"].value) == (True, "withheld: nobody has a query and at least 10 rows")


def test_a_baseline_without_a_reason_is_refused(own: SmallCorpus) -> None:
    done = own.zeroth("baseline", "accept", "--reason", " ")
    assert done.code == SettingsError.exit_code
    assert "moves for a reason" in done.err


def test_grants_are_given_taken_and_listed(own: SmallCorpus) -> None:
    assert own.zeroth("acl", "grant", "auditor", ORCHARD, LANTERN, "--json").json["granted"] == 2
    assert own.zeroth("acl", "list", "auditor", "--json").json[0]["tenant_keys"] == [LANTERN, ORCHARD]
    assert own.zeroth("acl", "revoke", "auditor", ORCHARD).code == 0
    assert own.zeroth("acl", "list", "auditor", "--json").json[0]["tenant_keys"] == [LANTERN]
    unclear = own.zeroth("acl", "revoke", "auditor")
    assert unclear.code == QueryError.exit_code
    assert own.zeroth("acl", "revoke", "auditor", "--all").code == 0
    assert own.zeroth("acl", "list", "nobody").code == QueryError.exit_code
    keys = {row["key_id"] for row in own.zeroth("claim", "list", "--json").json}
    new = own.zeroth("claim", "rotate-key", "--json").json["key_id"]
    assert new not in keys
    assert own.zeroth("db", "lint", "--json").json == []


def test_a_table_without_a_policy_is_found_by_the_lint_and_stops_the_schema(own: SmallCorpus) -> None:
    with own.active():
        from zeroth_assets.defs.resources import Project

        with Project().database.owner() as conn:
            conn.execute("create table zeroth.added_later (tenant_id int, text text)")
    lint = own.zeroth("db", "lint")
    assert lint.code == 10
    assert "added_later" in lint.out
    done = own.zeroth("materialize", "--asset", "database_schema")
    assert done.code == 10
    assert "boundary does not hold" in done.out
