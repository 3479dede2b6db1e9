"""The simulated GitHub's clock: wall time plus an offset that tests move."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Time as the simulated GitHub sees it.

    ``offset_s`` moves token expiry and every timestamp. ``jwt_skew_s`` moves only the check of App JWTs
    and the ``Date`` header: callers sign those with their own clock, which a test that ages tokens does not want to disturb.
    """

    def __init__(self) -> None:
        self.offset_s = 0.0
        self.jwt_skew_s = 0.0

    def now(self) -> datetime:
        """Aware UTC time, offset included."""
        return datetime.now(UTC) + timedelta(seconds=self.offset_s)

    def jwt_now(self) -> float:
        """Unix seconds against which App JWTs are checked."""
        return datetime.now(UTC).timestamp() + self.jwt_skew_s


def iso(moment: datetime) -> str:
    """GitHub's format: ``YYYY-MM-DDTHH:MM:SSZ``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or_none(moment: datetime | None) -> str | None:
    """As :func:`iso`; ``None`` stays ``None``."""
    return None if moment is None else iso(moment)
