"""What a mirror has done so far: counted for the report, and told while it runs."""

from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.report import RunReport
from barnabas.runtime.clock import Clock


class Watch:
    """Owned by one run; all of its flows count here, on one loop."""

    def __init__(self, report: RunReport, progress: Progress, clock: Clock) -> None:
        self._report = report
        self._progress = progress
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._behind: dict[str, int] = {}

    def add(self, name: str, number: int = 1) -> None:
        """Count."""
        self._report.add(name, number)

    def count_of(self, name: str) -> int:
        return self._report.counts.get(name, 0)

    def tell(self, text: str) -> None:
        """Something that whoever runs the mirror should know; it stays on the terminal and stands in the report."""
        self._progress.say(text)
        self._report.add("notices", 1)
        self._report.add_batch({"notice": text})

    def set_behind(self, source: str, records: int) -> None:
        """How many records of a source are not mirrored yet, as far as it is known."""
        self._behind[source] = records

    def show(self) -> None:
        """Show how far it is."""
        seconds = max(self._clock.monotonic_ms() - self._began_ms, 1) / 1000
        size = self.count_of("bytes")
        self._progress.show(
            f"{self.count_of('records'):,} records mirrored, {size / 1e6:,.1f} MB, {size / seconds / 1e6:,.1f} MB/s; "
            f"{sum(self._behind.values()):,} behind"
        )
