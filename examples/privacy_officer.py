"""May this model leave the building? Audits a pair of models and writes the report.

python -m examples.privacy_officer REPORT_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from audit.home import DEMO_HOSPITAL
from audit.interface import PosteriorSettings, audit_pair, save_report


def main(out: Path) -> None:
    """Audit the demo hospital's model on few inputs; leave `posterior` out for a real audit."""
    demo = DEMO_HOSPITAL / "en"
    report = audit_pair(
        general=demo / "models" / "general",
        hospital=demo / "models" / "hospital-40",
        names=demo / "names.csv",
        passages=demo / "passages.jsonl",
        scenario=2,
        posterior=PosteriorSettings(n_inputs=100, n_chain_inputs=0),
    )
    print(report.verdict.in_short("en"))
    print(report.verdict.english)
    for path in save_report(report, out=out):
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
