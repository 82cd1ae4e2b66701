from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import stat
import time
import traceback
from pathlib import Path

import psycopg
import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store import claim_keys
from zeroth_assets.store.claim_keys import ensure_claim_key, list_claim_keys, rotate_claim_key
from zeroth_assets.store.claims import (
    MAX_LIFETIME,
    ClaimError,
    ClaimKey,
    ClaimSigner,
    ensure_key,
    keep_key,
    key_file,
    new_key,
    read_key,
    sign_claim,
)
from zeroth_assets.store.connect import Database, principal_session
from zeroth_assets.store.passwords import Secret
from zeroth_assets_tests.store.builders import load, make_chunks, prepared

SEEN = "select count(*) from zeroth.chunk_1"
# RFC 4231, section 4: key, data, HMAC-SHA-256 (case 5 is truncated to 128 bits there).
VECTORS = [
    ("0b" * 20, b"Hi There".hex(), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (
        b"Jefe".hex(),
        b"what do ya want for nothing?".hex(),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ),
    ("aa" * 20, "dd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (
        bytes(range(1, 26)).hex(),
        "cd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    ),
    ("0c" * 20, b"Test With Truncation".hex(), "a3b6167473100ee06e0c796c2955552b"),
    (
        "aa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First".hex(),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
    (
        "aa" * 131,
        b"This is a test using a larger than block-size key and a larger than block-size data."
        b" The key needs to be hashed before being used by the HMAC algorithm.".hex(),
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    ),
]


@pytest.fixture(scope="module")
def db(module_database: Database) -> Database:
    prepared(module_database)
    load(module_database, make_chunks(range(4), "alpha"), tenant="alpha")
    load(module_database, make_chunks(range(3), "beta"), tenant="beta")
    return module_database


@pytest.fixture
def key(db: Database) -> ClaimKey:
    found = read_key(db.home, db.name)
    assert found is not None
    return found


def seen_with(db: Database, claim: str) -> tuple[object, ...]:
    """What a claim shows: the principal, rows, grants, tenants."""
    with db.app() as connection:
        connection.execute("select set_config('zeroth.claim', %s, true)", (claim,))
        row = connection.execute(
            "select zeroth.verified_principal(), (select count(*) from zeroth.chunk_1),"
            " (select count(*) from zeroth.my_grants()), (select count(*) from zeroth.tenant),"
            " zeroth.permitted_tenants(), zeroth.principal_is_known()"
        ).fetchone()
    assert row is not None
    return row


NOTHING: tuple[object, ...] = (None, 0, 0, 0, [], False)


@pytest.mark.parametrize(("secret", "message", "code"), VECTORS)
def test_hmac_in_sql_gives_the_vectors_of_rfc_4231(db: Database, secret: str, message: str, code: str) -> None:
    with db.owner() as connection:
        row = connection.execute(
            "select encode(zeroth.hmac_sha256(decode(%s, 'hex'), decode(%s, 'hex')), 'hex')", (secret, message)
        ).fetchone()
    assert row is not None
    assert row[0][: len(code)] == code


def test_hmac_in_sql_agrees_with_python_around_the_block_size(db: Database) -> None:
    with db.owner() as connection:
        for size in (0, 1, 31, 63, 64, 65, 127, 200):
            secret, message = hashlib.shake_256(b"key").digest(size), hashlib.shake_256(b"text").digest(size)
            row = connection.execute("select zeroth.hmac_sha256(%s, %s)", (secret, message)).fetchone()
            assert row == (hmac.digest(secret, message, "sha256"),)


@pytest.mark.parametrize("principal", ["alpha", "ab", "abc", "Zoë's team 💡/+", "x" * 200, "💡" * 200])
def test_a_signed_claim_is_whom_it_names(db: Database, key: ClaimKey, principal: str) -> None:
    claim = sign_claim(principal, key, time.time())
    assert seen_with(db, claim.text)[0] == principal


def test_a_claim_shows_its_principals_rows_and_grants_alone(db: Database, key: ClaimKey) -> None:
    claim = sign_claim("alpha", key, time.time())
    assert seen_with(db, claim.text)[:4] == ("alpha", 4, 1, 1)
    assert seen_with(db, sign_claim("all", key, time.time()).text)[:4] == ("all", 7, 2, 2)


def test_the_plain_setting_gives_nothing(db: Database) -> None:
    with db.app() as connection:
        for principal in ("alpha", "all"):
            connection.execute("select set_config('zeroth.principal', %s, true)", (principal,))
            assert connection.execute(SEEN).fetchone() == (0,)
            assert connection.execute("select zeroth.permitted_tenants()").fetchone() == ([],)


def test_no_claim_gives_nothing_before_and_after_one(db: Database) -> None:
    with db.app() as connection:
        assert connection.execute("select zeroth.verified_principal()").fetchone() == (None,)
        connection.rollback()
        with principal_session(connection, "alpha"):
            assert connection.execute(SEEN).fetchone() == (4,)
        assert connection.execute(SEEN).fetchone() == (0,)


@pytest.mark.parametrize(
    "claim",
    [
        "",
        "alpha",
        "1",
        "....",
        "1....",
        "\\x00",
        "'; select 1; --",
        "x" * 5000,
        "1." * 700,
        "1.zzzzzzzzzzzzzzzz.YWxwaGE.9999999999." + "0" * 64,
        "1.0123456789abcdef.YWxwaGE.9999999999." + "0" * 64,
        "1.0123456789abcdef.YWxwaGE.999999999999999999999999999999999999." + "0" * 64,
        "1.0123456789abcdef.YWxwaGE.-1." + "0" * 64,
        "1.0123456789abcdef.Y.9999999999." + "0" * 64,
        "1.0123456789abcdef.YW=x.9999999999." + "g" * 64,
        "1.0123456789abcdef.YWxwaGE.9999999999." + "0" * 64 + "\n",
        "\n1.0123456789abcdef.YWxwaGE.9999999999." + "0" * 64,
    ],
)
def test_what_is_no_claim_is_nobody_and_no_error(db: Database, claim: str) -> None:
    assert seen_with(db, claim) == NOTHING


def forgeries(key: ClaimKey, now: float) -> dict[str, str]:
    genuine = sign_claim("alpha", key, now).text
    version, key_id, name, expires, code = genuine.split(".")
    other = sign_claim("beta", key, now).text.split(".")
    flipped = f"{int(code[-1], 16) ^ 1:x}"
    return {
        "another principal": ".".join([version, key_id, other[2], expires, code]),
        "a later end": ".".join([version, key_id, name, str(int(expires) + 1), code]),
        "an end with a zero before it": ".".join([version, key_id, name, "0" + expires, code]),
        "another version": ".".join(["2", key_id, name, expires, code]),
        "one bit of the code": genuine[:-1] + flipped,
        "the first bit of the code": ".".join([version, key_id, name, expires, f"{int(code[0], 16) ^ 8:x}{code[1:]}"]),
        "a code cut short": genuine[:-1],
        "a code in capitals": ".".join([version, key_id, name, expires, code.upper()]),
        "another key of the same name": sign_claim("alpha", ClaimKey(key_id, Secret("00" * 32)), now).text,
        "a key nobody knows": sign_claim("alpha", new_key(), now).text,
        "the dummy that stands in for unknown keys": sign_claim("alpha", ClaimKey("f" * 16, Secret("00")), now).text,
        "expired": sign_claim("alpha", key, now - 1000, 900).text,
        "expired this second": sign_claim("alpha", key, int(now) - 900, 900).text,
        "too long a life": sign_claim("alpha", key, now + 600, MAX_LIFETIME).text,
        "from another database": sign_claim("alpha", ensure_other(key), now).text,
    }


def ensure_other(key: ClaimKey) -> ClaimKey:
    return ClaimKey(key.key_id, new_key().key)


def test_no_forgery_shows_anything(db: Database, key: ClaimKey) -> None:
    now = time.time()
    genuine = sign_claim("alpha", key, now)
    assert seen_with(db, genuine.text)[0] == "alpha"
    for name, text in forgeries(key, now).items():
        assert text != genuine.text, name
        assert seen_with(db, text) == NOTHING, name


def signed(name: bytes | str, key: ClaimKey, expires: float) -> str:
    """A claim with a code that holds, whatever it names: bytes, or the very characters of that part."""
    part = name if isinstance(name, str) else base64.urlsafe_b64encode(name).decode().rstrip("=")
    payload = f"1.{key.key_id}.{part}.{int(expires)}"
    code = hmac.new(bytes.fromhex(key.key.reveal()), payload.encode(), hashlib.sha256).hexdigest()
    return f"{payload}.{code}"


def named(name: bytes) -> str | None:
    """Whom these bytes name, as Python reads them: nobody where they are no text, or hold what a text cannot."""
    try:
        text = name.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def test_a_claim_whose_code_holds_and_whose_name_is_no_text_sees_nothing(db: Database, key: ClaimKey) -> None:
    soon = time.time() + 600
    odd: dict[str, bytes | str] = {
        "no UTF-8": b"\xff\xfe",
        "cut within a character": "alphä".encode()[:-1],
        "a surrogate": b"\xed\xa0\x80",
        "an overlong slash": b"\xc0\xaf",
        "above the last code point": b"\xf4\x90\x80\x80",
        "NUL": b"alpha\x00",
        "one character too many": "YWxwaGE" + "AB",
        "a single character": "Y",
        "long": b"\x80" * 900,
    }
    for what, name in odd.items():
        assert seen_with(db, signed(name, key, soon)) == NOTHING, what
    assert seen_with(db, signed(b"alpha", key, soon))[:2] == ("alpha", 4)
    assert seen_with(db, signed(b"a" * 900, key, soon))[:2] == ("a" * 900, 0)
    assert seen_with(db, signed(b"a" * 2000, key, soon)) == NOTHING


def test_any_bytes_are_read_as_python_reads_them_and_none_is_an_error(db: Database, key: ClaimKey) -> None:
    draw = random.Random(5)
    edges = (0x01, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xEC, 0xED, 0xEE, 0xEF)
    leads = (0x00, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)
    names = [bytes([lead, *draw.choices(edges, k=draw.randint(0, 3))]) for lead in (*edges, *leads) for _ in range(16)]
    names += [
        chr(draw.randrange(1, 0xD800)).encode() + chr(draw.randrange(0xE000, 0x110000)).encode() for _ in range(60)
    ]
    soon = time.time() + 600
    read = {}
    with db.app() as connection:
        for name in names:
            connection.execute("select set_config('zeroth.claim', %s, true)", (signed(name, key, soon),))
            row = connection.execute("select zeroth.verified_principal()").fetchone()
            assert row is not None
            read[name] = row[0]
    assert read == {name: named(name) for name in names}
    assert {None} < set(read.values())


def test_a_clock_that_is_a_minute_ahead_is_borne_and_one_further_off_or_behind_sees_nothing(
    db: Database, key: ClaimKey
) -> None:
    now = time.time()
    assert seen_with(db, sign_claim("alpha", key, now + 50, MAX_LIFETIME).text)[0] == "alpha"
    assert seen_with(db, sign_claim("alpha", key, now + 90, MAX_LIFETIME).text) == NOTHING
    assert seen_with(db, sign_claim("alpha", key, now - 901, 900).text) == NOTHING
    assert seen_with(db, signed(b"alpha", key, 999_999_999_999)) == NOTHING


def test_a_claim_of_one_database_is_nobody_in_another_of_the_same_home(db: Database, key: ClaimKey) -> None:
    elsewhere = ensure_key(db.home, "some-other-database")
    assert elsewhere.key_id != key.key_id
    assert seen_with(db, sign_claim("alpha", elsewhere, time.time()).text) == NOTHING


def test_a_claim_ends_within_an_open_transaction_by_the_servers_clock(db: Database, key: ClaimKey) -> None:
    with db.app() as connection:
        connection.execute("set transaction isolation level repeatable read")
        claim = sign_claim("alpha", key, time.time(), 2)
        connection.execute("select set_config('zeroth.claim', %s, true)", (claim.text,))
        assert connection.execute(SEEN).fetchone() == (4,)
        connection.execute("select pg_sleep(greatest(0, %s - extract(epoch from clock_timestamp())))", (claim.expires,))
        assert connection.execute(SEEN).fetchone() == (0,)


def test_a_block_that_outlives_its_claim_is_an_error_and_no_empty_answer(db: Database) -> None:
    with db.app() as connection:
        with pytest.raises(ClaimError, match="ran out"), principal_session(connection, "alpha", lifetime=1):
            connection.execute("select pg_sleep(0.05)")
        with principal_session(connection, "alpha", lifetime=60):
            assert connection.execute(SEEN).fetchone() == (4,)


def test_a_claim_that_the_database_refuses_is_an_error_and_no_empty_answer(db: Database, tmp_path: Path) -> None:
    with db.app() as connection:
        connection.signer = ClaimSigner(db.home, db.name, clock=lambda: time.time() - 5000)
        with pytest.raises(ClaimError) as caught, principal_session(connection, "alpha"):
            pass
        assert "+5000 s" in caught.value.found
        (tmp_path / "postgres").mkdir()
        ensure_key(tmp_path, db.name)
        connection.signer = ClaimSigner(tmp_path, db.name)
        with pytest.raises(ClaimError, match="refuses") as caught, principal_session(connection, "alpha"):
            pass
        assert "zeroth db migrate" in caught.value.remedy


@pytest.mark.parametrize("lifetime", [0, -1, MAX_LIFETIME + 1, float("nan"), float("inf")])
def test_a_lifetime_out_of_range_is_refused(lifetime: float) -> None:
    with pytest.raises(ClaimError, match="lifetime"):
        sign_claim("alpha", new_key(), 0.0, lifetime)


def test_the_claim_is_verified_once_per_statement_and_not_per_row(db: Database) -> None:
    """Counted by the server itself: `track_functions` shows calls per function."""
    with db.admin(autocommit=True) as admin:
        admin.execute("grant set on parameter track_functions to zeroth_app")
    try:
        with db.app() as connection, principal_session(connection, "all"):
            connection.execute("set local track_functions = 'all'")
            counted = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = %s"
            before = connection.execute(counted, ("verified_principal",)).fetchone()
            rows = connection.execute("select count(*) from zeroth.chunk_1 a, zeroth.chunk_1 b").fetchone()
            after = connection.execute(counted, ("verified_principal",)).fetchone()
            plan = connection.execute("explain (costs off) select * from zeroth.chunk_1").fetchall()
    finally:
        with db.admin(autocommit=True) as admin:
            admin.execute("revoke set on parameter track_functions from zeroth_app")
    assert rows == (49,)
    assert before is not None
    assert after is not None
    assert after[0] - before[0] == 2  # once for each mention of the table
    assert "InitPlan" in "\n".join(row[0] for row in plan)


def test_another_session_of_the_role_reads_nothing_in_the_activity_view(db: Database) -> None:
    with (
        db.app() as connection,
        principal_session(connection, "alpha"),
        db.app() as other,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        other.execute("select query from pg_stat_activity")


def test_the_claim_is_a_parameter_and_stands_in_no_statement(db: Database) -> None:
    with db.app() as connection, principal_session(connection, "alpha"), db.admin() as admin:
        row = admin.execute(
            "select query from pg_stat_activity where pid = %s", (connection.info.backend_pid,)
        ).fetchone()
        claim = connection.execute("select current_setting('zeroth.claim')").fetchone()
        assert row is not None
        assert claim is not None
        assert "set_config" in row[0]
        assert str(claim[0])[-64:] not in row[0]


def test_a_key_is_changed_under_open_sessions_without_a_gap(fresh_database: Database) -> None:
    db = prepared(fresh_database)
    load(db, make_chunks(range(4), "alpha"), tenant="alpha")
    before = read_key(db.home, db.name)
    assert before is not None
    with db.app() as during, db.app() as later:
        with principal_session(later, "alpha"):
            assert later.execute(SEEN).fetchone() == (4,)
        with principal_session(during, "alpha"):
            assert during.execute(SEEN).fetchone() == (4,)
            new_id = rotate_claim_key(db)
            assert new_id != before.key_id
            assert during.execute(SEEN).fetchone() == (4,)
            with principal_session(later, "alpha"):  # its signer was made before the change
                assert later.execute(SEEN).fetchone() == (4,)
                claim = later.execute("select current_setting('zeroth.claim')").fetchone()
                assert claim is not None
                assert claim[0].split(".")[1] == new_id
            rotate_claim_key(db, overlap=0)
            assert during.execute(SEEN).fetchone() == (0,)
    assert seen_with(db, sign_claim("alpha", before, time.time()).text) == NOTHING
    keys = list_claim_keys(db)
    assert [known.retired_at is None for known in keys] == [False, False, True]


def test_a_key_that_a_killed_change_left_behind_ends_with_the_next_change(
    fresh_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(fresh_database)
    before = {known.key_id for known in list_claim_keys(fresh_database)}

    def killed(home: Path, database: str, key: ClaimKey) -> None:
        if key.key_id not in before:
            raise KeyboardInterrupt
        keep_key(home, database, key)

    with monkeypatch.context() as patch:
        patch.setattr(claim_keys, "keep_key", killed)
        with pytest.raises(KeyboardInterrupt):
            rotate_claim_key(fresh_database)
    left = {known.key_id for known in list_claim_keys(fresh_database)} - before
    assert len(left) == 1
    with fresh_database.app() as connection, principal_session(connection, "all"):
        pass  # the home signs as before
    new = rotate_claim_key(fresh_database, overlap=0.0)
    assert [known.key_id for known in list_claim_keys(fresh_database) if known.retired_at is None] == [new]


def test_a_home_whose_key_was_retired_or_lost_gets_a_new_one_on_migrating(fresh_database: Database) -> None:
    db = prepared(fresh_database)
    load(db, make_chunks(range(4), "alpha"), tenant="alpha")
    first = ensure_claim_key(db)
    assert ensure_claim_key(db) == first
    with db.owner() as owner:
        owner.execute("update zeroth_acl.claim_key set retired_at = clock_timestamp()")
    with db.app() as connection, pytest.raises(ClaimError), principal_session(connection, "alpha"):
        pass
    second = ensure_claim_key(db)
    assert second != first
    kept = json.loads(key_file(db.home).read_text())
    del kept[db.name]
    key_file(db.home).write_text(json.dumps(kept))
    assert ensure_claim_key(db) not in (first, second)
    with db.app() as connection, principal_session(connection, "alpha"):
        assert connection.execute(SEEN).fetchone() == (4,)


def test_the_key_file_is_the_owners_alone_and_shows_in_no_text_form(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    key = ensure_key(tmp_path, "zeroth")
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600
    assert ensure_key(tmp_path, "zeroth") == key
    assert key.key.reveal() not in f"{key!r} {ClaimSigner(tmp_path, 'zeroth')!r}"
    claim = ClaimSigner(tmp_path, "zeroth").sign("alpha")
    assert claim.text not in repr(claim)
    key_file(tmp_path).chmod(0o644)
    assert read_key(tmp_path, "zeroth") == key
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "[]", '{"zeroth": "hunter2"}', '{"zeroth": {"key_id": "x", "key": "hunter2"}}'])
def test_a_damaged_key_file_is_refused_and_its_text_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "postgres").mkdir()
    key_file(tmp_path).write_text(text)
    with pytest.raises(DatabaseError, match=r"claim_keys\.json") as caught:
        ClaimSigner(tmp_path, "zeroth").sign("alpha")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_neither_keys_nor_codes_stand_in_an_error_of_the_database(db: Database, key: ClaimKey) -> None:
    with db.app() as connection, pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from zeroth_acl.claim_key where key = %s", (key.key.reveal(),))
    assert key.key.reveal() not in str(caught.value)
