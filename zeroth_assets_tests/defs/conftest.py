from __future__ import annotations

# Every asset's module is imported as the code location does it, which silences the previews that are used knowingly.
from zeroth_assets.definitions import defs

__all__ = ["defs"]
