"""The judge: a pool of passages in, graded judgments out, as far as the model gave any.

What belongs here: the run, which calls are still to be made, when to stop, what the whole amounts to. Nothing here
calls a model unless a configuration is handed in; without one, grades come from spans (`sources`).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import polars as pl

from zeroth_assets.evaluation.judging.budget import Budget
from zeroth_assets.evaluation.judging.client import ChatClient, RequestRefused
from zeroth_assets.evaluation.judging.journal import Journal
from zeroth_assets.evaluation.judging.model import (
    JUDGED_SCHEMA,
    REPEAT_SCHEMA,
    UNKNOWN,
    AnswerError,
    BudgetError,
    CallRecord,
    FailureKind,
    JudgeConfig,
    JudgedRun,
    JudgeQuery,
    JudgeUnavailable,
    Snapshot,
    SnapshotError,
    Usage,
)
from zeroth_assets.evaluation.judging.plan import Call, QueryPlan, plan_calls
from zeroth_assets.evaluation.judging.prompt import RELEVANCE_STATEMENT, prompt_hash
from zeroth_assets.evaluation.judging.snapshot import check_answer, drafter_caveat, resolve
from zeroth_assets.evaluation.judging.validate import parse_grades
from zeroth_assets.evaluation.judging.wire import answer_text

# One query may be too long for the server; three in a row are the server's fault, and more would only cost.
_FAILURES_IN_A_ROW = 3
_FATAL_STATUS = frozenset({401, 403, 404})
# The same prompt is cut off, or refused, at the same place.
_NOT_ASKED_AGAIN: frozenset[FailureKind] = frozenset({"truncated", "refused"})


def judge_pool(
    pool: pl.DataFrame,
    passages: pl.DataFrame,
    config: JudgeConfig,
    *,
    queries: Sequence[JudgeQuery],
    journal: Path | Callable[[Snapshot], Path],
    statement: str = RELEVANCE_STATEMENT,
    progress: Callable[[int, int], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    transport: httpx.BaseTransport | None = None,
) -> JudgedRun:
    """Grade every pair of `pool` (query_id, document_id), with the texts of `passages` (document_id, text).

    Each call's record is on disk (`journal`, or what it names for a snapshot) before the next call is made. After a
    kill the same arguments complete the run: what is judged is not asked again, what failed is. A passage that was
    judged for the same question in an earlier pool is not asked again either. Other columns are not looked at.

    Raises:
        JudgeError: settings, pool or passages that cannot be used; a damaged journal.
        SnapshotError: the model is not served, not pinned though `config.publishing`, has drafted a query, is not the
            journal's, or changed under the run.
        JudgeUnavailable, RequestRefused: the server failed several calls in a row, or will not serve this key.
        BudgetError: the next call could exceed a budget.
    """
    wording = prompt_hash(statement)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(
            ChatClient(config, sleep=sleep, clock=clock, monotonic=monotonic, transport=transport)
        )
        snapshot, spent = resolve(client)
        book = stack.enter_context(Journal(journal if isinstance(journal, Path) else journal(snapshot)))
        plans = plan_calls(
            pool,
            passages,
            queries,
            config,
            snapshot,
            statement,
            begun=lambda query_id, digest: book.finished(query_id, digest) is not None,
            graded=lambda pair: book.grade(pair, config.temperature) is not None,
        )
        caveats = {plan.query.query_id: drafter_caveat(snapshot, plan.query) for plan in plans}
        book.claim(snapshot, wording, spent)
        open_calls = [(plan, call) for plan in plans for call in plan.calls if _record_of(book, plan, call) is None]
        budget = Budget(config, book.spent)

        def work(plan: QueryPlan, call: Call) -> tuple[CallRecord, Exception | None]:
            return _judge(client, budget, snapshot, plan, call, wording, caveats[plan.query.query_id])

        _run(book, plans, open_calls, work, config.concurrency, progress)
        return _assemble(book, plans, snapshot, wording, config, caveats)


def _run(
    book: Journal,
    plans: list[QueryPlan],
    open_calls: list[tuple[QueryPlan, Call]],
    work: Callable[[QueryPlan, Call], tuple[CallRecord, Exception | None]],
    concurrency: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Make the calls, up to `concurrency` at a time, and journal each as it ends.

    An error that ends the run is raised when the calls under way have ended: they are paid for.
    """
    left = Counter(plan.query.query_id for plan, _ in open_calls)
    todo = iter(open_calls)
    under_way: dict[Future[tuple[CallRecord, Exception | None]], QueryPlan] = {}
    stop: Exception | None = None
    in_a_row = 0
    if progress is not None:
        progress(len(plans) - len(left), len(plans))
    with ThreadPoolExecutor(concurrency, thread_name_prefix="judge") as pool:
        while True:
            while stop is None and len(under_way) < concurrency and (following := next(todo, None)) is not None:
                under_way[pool.submit(work, *following)] = following[0]
            if not under_way:
                break
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                plan = under_way.pop(future)
                try:
                    record, error = future.result()
                except BudgetError as exhausted:
                    stop = stop or exhausted
                    continue
                book.append(record)
                in_a_row = in_a_row + 1 if isinstance(error, JudgeUnavailable | RequestRefused) else 0
                fatal = isinstance(error, SnapshotError) or (
                    isinstance(error, RequestRefused) and error.status in _FATAL_STATUS
                )
                if fatal or in_a_row >= _FAILURES_IN_A_ROW:
                    stop = stop or error
                left[plan.query.query_id] -= 1
                if progress is not None and not left[plan.query.query_id]:
                    left.pop(plan.query.query_id)
                    progress(len(plans) - len(left), len(plans))
    if stop is not None:
        raise stop


def _judge(
    client: ChatClient,
    budget: Budget,
    snapshot: Snapshot,
    plan: QueryPlan,
    call: Call,
    wording: str,
    caveat: str | None,
) -> tuple[CallRecord, Exception | None]:
    config = client.config
    spent, seed, fingerprint = Usage(), config.seed, UNKNOWN
    failure: FailureKind | None = None
    problem: Exception | None = None
    grades: dict[str, int] = {}
    repeats: dict[str, int] = {}
    for attempt in range(config.answer_tries):
        # The same seed would bring the same bad answer; the one that counted is recorded.
        seed = config.seed + attempt
        most = client.most(call.messages)
        try:
            budget.reserve(most)
        except BudgetError:
            if attempt == 0:
                raise
            break
        used = Usage()
        try:
            completion = client.complete(snapshot.request_name, call.messages, seed=seed, schema=call.schema)
            used = completion.usage
            fingerprint = completion.system_fingerprint
            check_answer(snapshot, completion)
            text = answer_text(completion, config.max_output_tokens)
            grades, repeats = call.read(parse_grades(text, call.names))
        except AnswerError as error:
            failure, problem = error.kind, error
            if error.kind in _NOT_ASKED_AGAIN:
                break
        except SnapshotError as error:
            failure, problem = "wrong model", error
            break
        except JudgeUnavailable as error:
            failure, problem = "unavailable", error
            break
        except RequestRefused as error:
            failure, problem = "refused", error
            break
        else:
            failure, problem = None, None
            break
        finally:
            budget.settle(most, used)
            spent += used
    record = CallRecord(
        query_id=plan.query.query_id,
        call_digest=call.digest,
        judge=snapshot.label,
        prompt_hash=wording,
        backend=snapshot.backend,
        backend_version=snapshot.backend_version,
        system_fingerprint=fingerprint,
        seed=seed,
        temperature=config.temperature,
        order_seed=plan.order_seed,
        constrained_by=client.spelling,
        usage=spent,
        grades=grades,
        repeats=repeats,
        failure=failure,
        caveats=(caveat,) if caveat else (),
        pairs={document: plan.pairs[document] for document in call.documents},
    )
    return record, problem


def _record_of(book: Journal, plan: QueryPlan, call: Call) -> CallRecord | None:
    """The judgment of a call, if it names the very documents of this pool."""
    record = book.finished(plan.query.query_id, call.digest)
    if record is None:
        return None
    known = record.grades.keys() | record.repeats.keys()
    return record if known == set(call.documents) else None


def _known(book: Journal, plan: QueryPlan, temperature: float | None) -> tuple[dict[str, int], dict[str, int]]:
    """The grades of the documents that are not asked again, and the second ones of those that were shown twice."""
    pairs = {document: plan.pairs[document] for document in plan.known}
    first = {document: book.grade(pair, temperature) for document, pair in pairs.items()}
    second = {document: book.second_grade(pair, temperature) for document, pair in pairs.items()}
    return (
        {document: grade for document, grade in first.items() if grade is not None},
        {document: grade for document, grade in second.items() if grade is not None},
    )


def _assemble(
    book: Journal,
    plans: list[QueryPlan],
    snapshot: Snapshot,
    wording: str,
    config: JudgeConfig,
    about_drafters: dict[str, str | None],
) -> JudgedRun:
    judged: list[tuple[str, str, int, str, str]] = []
    shown_twice: list[tuple[str, str, int, int]] = []
    failed: dict[str, FailureKind] = {}
    fingerprints: set[str] = set()
    for plan in plans:
        query_id = plan.query.query_id
        first, second = _known(book, plan, config.temperature)
        for call in plan.calls:
            record = _record_of(book, plan, call)
            if record is None:
                lost = book.failure(query_id, call.digest)
                failed[query_id] = lost.failure if lost is not None and lost.failure is not None else "incomplete"
                break
            first.update(record.grades)
            second.update(record.repeats)
            fingerprints.add(record.system_fingerprint)
        else:
            judged += [(query_id, d, first[shown], snapshot.label, wording) for d, shown in plan.same_text.items()]
            shown_twice += [(query_id, document, first[document], grade) for document, grade in second.items()]
    notes = Counter(text for text in about_drafters.values() if text is not None)
    caveats = [f"{text} ({count} queries)" for text, count in sorted(notes.items())]
    if snapshot.snapshot is None:
        caveats.append("the model is not pinned: the server tells no dated name for it, nothing here may be published")
    if len(fingerprints) > 1:
        caveats.append(f"the server changed its configuration during the run: {', '.join(sorted(fingerprints))}")
    if not book.spent.reported:
        caveats.append("the server told no usage for some calls: tokens and cost are upper bounds")
    return JudgedRun(
        snapshot=snapshot,
        prompt_hash=wording,
        judgments=pl.DataFrame(judged, schema=JUDGED_SCHEMA, orient="row"),
        repeats=pl.DataFrame(shown_twice, schema=REPEAT_SCHEMA, orient="row"),
        failed=failed,
        usage=book.spent,
        cost=book.spent.cost(config.prices),
        currency=config.prices.currency if config.prices else None,
        caveats=tuple(caveats),
        sitting=book.sitting,
    )
