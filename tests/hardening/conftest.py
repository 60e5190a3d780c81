"""The fixture that commands which are killed or limited are run by."""

import pytest
from commands import Commands


@pytest.fixture(scope="module")
def commands():
    found = Commands()
    yield found
    found.close()
