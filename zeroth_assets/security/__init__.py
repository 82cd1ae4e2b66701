"""The security suite: does any row, word or number of a tenant reach somebody who may not see it?

What belongs here: probes that attack a database as its querying role, the channels that PostgreSQL leaves open, and the
mutants that show that the suite can fail. `security_check` runs it against any database and changes nothing.
"""

from zeroth_assets.security.report import Channel, SecurityBreachError, SecurityReport
from zeroth_assets.security.suite import check_ground, security_check

__all__ = ["Channel", "SecurityBreachError", "SecurityReport", "check_ground", "security_check"]
