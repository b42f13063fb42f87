"""A disk that fails at the N-th write: no traceback, no wrong value, nothing lost."""

from __future__ import annotations

import shutil

import pytest

from tests.base.write_faults import run_with_faults
from tests.repository import many


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler for the failing disk")
@pytest.mark.parametrize(("what", "n"), [("store", 15), ("damaged", 15), ("table", 30)])
def test_a_fault_at_any_write_costs_only_what_was_being_written(tmp_path, what, n):
    said = run_with_faults(what, folder=tmp_path, n_tries=many(n))
    print(said)
    assert said.startswith(f"{what}: {many(n)} faults") or many(1) > 1
