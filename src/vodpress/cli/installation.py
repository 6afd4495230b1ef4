"""`vodpress migrate` and `vodpress doctor`: the installation itself."""

from __future__ import annotations

import typer

from vodpress.cli.running import AsJson, print_json, print_lines, run
from vodpress.database import migrate_database
from vodpress.doctor import examine
from vodpress.domain.failure import ExitCode


def migrate(as_json: AsJson = False) -> None:
    """Bring the database to this release's schema. Safe to run many times, and by several at once.

    \b
    Examples:
      vodpress migrate
      VODPRESS_DATABASE_URL=postgresql://vodpress@db/vodpress vodpress migrate --json
    """
    applied = run(migrate_database, as_json=as_json)
    if as_json:
        print_json({"applied": applied})
    else:
        print_lines(*(f"applied {name}" for name in applied) if applied else ["The database is up to date."])


def doctor(as_json: AsJson = False) -> None:
    """Check the installation: tools and their versions, disk, database, storage. Exit status 5 when something fails.

    \b
    Examples:
      vodpress doctor
      vodpress doctor --json | jq '.[] | select(.ok | not)'
    """
    checks = run(examine, as_json=as_json)
    if as_json:
        print_json([{"check": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks])
    else:
        for check in checks:
            print_lines(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.found}")
            if not check.ok:
                print_lines(f"      What to do: {check.remedy}")
    if not all(check.ok for check in checks):
        raise typer.Exit(int(ExitCode.INFRASTRUCTURE))
