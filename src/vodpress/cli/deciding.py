"""What commands that record a person's decision have in common: who decides, and why."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from vodpress.domain.deadletter import Decider

Why = Annotated[str, typer.Option(metavar="TEXT", help="The reason, kept with the decision.", show_default=False)]
By = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who decides.  [default: your account]", show_default=False)
]


def decider(by: str | None, why: str) -> Decider:
    """Who decides: the name given, or the account's."""
    if by:
        return Decider(by, why)
    try:
        return Decider(getpass.getuser(), why)
    except (KeyError, OSError):  # an account without a name, as in some containers
        return Decider("unknown", why)
