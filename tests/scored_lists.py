"""Lists of names with scores, ties among them, for tests of any such list."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from audit.stats import bootstrap_ranking

quick = settings(deadline=None, max_examples=40)
# Halves, so that ties are common and negation and sums are exact.
values = st.integers(-6, 6).map(lambda x: x / 2)


@st.composite
def scored_lists(draw):
    n_members, n_controls = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    scores = draw(
        st.lists(values, min_size=n_members + n_controls, max_size=n_members + n_controls)
    )
    return np.array(scores), np.arange(n_members + n_controls) < n_members


def tpr_at_fpr(scores, is_member, *, fpr: float) -> float:
    """The TPR at one FPR; NaN: not resolvable."""
    ranking = bootstrap_ranking(scores, is_member, seed=0, fprs=(fpr,), n_replicates=1)
    return ranking.tpr_at_fpr[0][1].value
