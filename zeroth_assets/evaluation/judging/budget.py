"""What a run may spend, held even while several calls are under way.

What belongs here: the sums. A call reserves the most that it can cost before it is made, and gives back what it did
not use.
"""

from __future__ import annotations

import threading

from zeroth_assets.evaluation.judging.model import BudgetError, JudgeConfig, Usage


class Budget:
    """Spent and reserved tokens of a run. Safe to share between threads."""

    def __init__(self, config: JudgeConfig, spent: Usage) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._spent = spent
        self._reserved = Usage()

    def reserve(self, most: Usage) -> None:
        """Set aside the most that a call can cost.

        Raises:
            BudgetError: with what is spent and reserved, it could exceed a budget.
        """
        with self._lock:
            self._check(self._spent + self._reserved, most)
            self._reserved += most

    def settle(self, most: Usage, used: Usage) -> None:
        """Give back a reservation, and count what was used of it."""
        with self._lock:
            self._spent += used
            self._reserved = Usage(
                0, self._reserved.input_tokens - most.input_tokens, self._reserved.output_tokens - most.output_tokens
            )

    def _check(self, bound: Usage, most: Usage) -> None:
        limit, money, prices = self._config.token_budget, self._config.money_budget, self._config.prices
        remedy = "raise the budget and run the same command: what is judged is kept"
        if limit is not None and bound.tokens + most.tokens > limit:
            raise BudgetError(
                "The judge's token budget does not allow another call",
                expected=f"at most {limit:,} tokens, reasoning included",
                found=f"{bound.tokens:,} spent or under way, up to {most.tokens:,} for the next call",
                remedy=remedy,
            )
        if money is None or prices is None:
            return
        cost, next_cost = bound.cost(prices) or 0.0, most.cost(prices) or 0.0
        if cost + next_cost > money:
            raise BudgetError(
                "The judge's money budget does not allow another call",
                expected=f"at most {money:.4f} {prices.currency}",
                found=f"{cost:.4f} spent or under way, up to {next_cost:.4f} for the next call",
                remedy=remedy,
            )
