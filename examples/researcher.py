"""Which score tells members from controls best? Compares scores of one audit and draws the figure.

python -m examples.researcher FIGURE.html
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from audit.home import DEMO_HOSPITAL
from audit.interface import PosteriorSettings, audit_pair, draw_scores, score

SCORES = ("difference", "log_ratio", "mean_log_ratio", "residual")


def main(out: Path) -> None:
    """Compare the scores of the demo's members and hard controls, and draw the fixed score."""
    demo = DEMO_HOSPITAL / "en"
    report = audit_pair(
        general=demo / "models" / "general",
        hospital=demo / "models" / "hospital-40",
        names=pd.read_csv(demo / "names.csv", dtype=str, keep_default_na=False),
        passages=demo / "passages.jsonl",
        scenario=2,
        posterior=PosteriorSettings(n_inputs=100, n_chain_inputs=0),
    )
    names = report.table[report.table["kind"].isin(("member", "hard"))]
    measures = {name: score(names[name], names["kind"] == "member") for name in SCORES}
    print(pd.DataFrame({name: table.loc["auc"] for name, table in measures.items()}).T)
    draw_scores(report).write_html(out)
    print(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
