"""What the suite found, for a person and for a script.

What belongs here: the report, its texts, and what its exit code means.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from zeroth_assets.errors import ZerothError
from zeroth_assets.security.model import ProbeResult


class SecurityBreachError(ZerothError):
    """A probe of the security suite got through."""

    exit_code: ClassVar[int] = 14


@dataclass(frozen=True, slots=True)
class Channel:
    """A residual channel: what PostgreSQL tells any role about rows that it may not see.

    `tells` is what can be learnt, `measured` the figures found here, `narrowed` what was done about it. `open` is
    whether the channel could be told apart here.
    """

    name: str
    tells: str
    measured: str
    narrowed: str
    open: bool


@dataclass(frozen=True, slots=True)
class SecurityReport:
    """The probes, and the channels that remain. `hidden` counts tenants that the rightful identity may not see."""

    database: str
    place: str
    tenants: int
    hidden: int
    relations: tuple[str, ...]
    identities: tuple[str, ...]
    probes: tuple[ProbeResult, ...]
    channels: tuple[Channel, ...]

    @property
    def breached(self) -> tuple[ProbeResult, ...]:
        """The probes that got through."""
        return tuple(result for result in self.probes if result.status == "breached")

    @property
    def exit_code(self) -> int:
        """0 where every probe held or was skipped with a reason, 14 where one got through."""
        return SecurityBreachError.exit_code if self.breached else 0

    def require(self) -> None:
        """Raises: SecurityBreachError: a probe got through; names the probes and their first finding each."""
        if self.breached:
            raise SecurityBreachError(
                f"{len(self.breached)} of {len(self.probes)} probes got through in {self.database}",
                expected="no row, word or number of a tenant for anybody who may not see it",
                found="; ".join(f"{result.name}: {result.breaches[0]}" for result in self.breached[:8]),
                remedy="serve nothing from this database; `zeroth db migrate` restores the policies, "
                "`zeroth security check --json` lists every finding",
            )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "exit_code": self.exit_code, "breached": [result.name for result in self.breached]}

    def to_markdown(self) -> str:
        """Two tables: probes, and channels."""
        lines = [
            f"# Security check of `{self.database}`",
            "",
            _summary(self),
            "",
            "| probe | what it attempts | a breach is | attempts | result |",
            "| --- | --- | --- | ---: | --- |",
        ]
        lines += [
            f"| {r.name} | {r.attempts} | {r.breach} | {r.tries:,} | {_result(r)} |".replace("\n", " ")
            for r in self.probes
        ]
        if self.channels:
            lines += ["", "## What PostgreSQL leaves to every role", "", *self._channel_lines()]
        return "\n".join(lines) + "\n"

    def channels_page(self, command: str) -> str:
        """The channels alone as a Markdown page; `command` is what makes it anew."""
        opened = sum(channel.open for channel in self.channels)
        return f"""# Residual channels

What PostgreSQL tells any role about rows that it may not see, measured as `zeroth_app` under a rightful claim. None of
them gives a document's text. Made by

    {command}

on a database of {self.tenants} tenants, {self.hidden} of them hidden from the identity that asked. Of
{len(self.channels)} channels {opened} are open: they told hidden rows from none, or something of them.

{chr(10).join(self._channel_lines())}
"""

    def _channel_lines(self) -> list[str]:
        return [
            "| channel | what it tells | measured here | open | how far narrowed |",
            "| --- | --- | --- | --- | --- |",
            *(
                f"| {c.name} | {c.tells} | {c.measured} | {'yes' if c.open else 'no'} | {c.narrowed} |"
                for c in self.channels
            ),
        ]


def _summary(report: SecurityReport) -> str:
    verdict = f"**{len(report.breached)} got through.**" if report.breached else "None got through."
    tries = sum(result.tries for result in report.probes)
    return (
        f"{len(report.probes)} probes, {tries:,} attempts over {len(report.relations)} relations as "
        f"{len(report.identities)} identities; {report.tenants} tenants, {report.hidden} of them hidden from the "
        f"rightful identity. {verdict}"
    )


def _result(result: ProbeResult) -> str:
    if result.status == "breached":
        more = f" and {result.found - 3} more" if result.found > 3 else ""
        return f"**breached**: {'; '.join(result.breaches[:3])}{more}"
    return "held" if result.status == "held" else f"skipped: {result.reason}"
