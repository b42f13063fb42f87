"""What the tests of commands share."""

from __future__ import annotations

import json

import pytest

from audit.cli import main


@pytest.fixture
def run(capsys):
    """Run a command with --json; what it prints, with its exit code and what it says."""

    def run(*words):
        capsys.readouterr()
        code = main([*map(str, words), "--json"])
        streams = capsys.readouterr()
        assert "Traceback" not in streams.err
        return {"code": code, "said": streams.err, **json.loads(streams.out or "{}")}

    return run
