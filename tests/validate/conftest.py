"""Files of runs."""

import pytest
from run_samples import HEADER, text


@pytest.fixture
def runs_file(tmp_path):
    """Writes a file of runs."""

    def write(*rows, header=HEADER, name="runs.csv"):
        path = tmp_path / name
        path.write_text(text(*rows, header=header))
        return str(path)

    return write
