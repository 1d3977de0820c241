"""Which rows the benchmark of loading runs."""

import pytest

from bench import loading


@pytest.mark.parametrize("stages", [[], ["--stages"]])
def test_a_row_that_there_is_not_is_told_before_anything_starts(
    stages: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loading, "new_zookeeper")
    assert loading.main(["--row", "Iceberg", *stages]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "no row has Iceberg in its name\n")


def test_rows_are_chosen_by_a_part_of_their_names() -> None:
    assert [row.name for row in loading.chosen_rows("Parquet")] == ["Parquet, zstd", "Parquet, not compressed"]
    assert loading.chosen_rows(None) == list(loading.ROWS)
