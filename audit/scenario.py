"""The KART tuple: what an attacker knows, what was anonymised, what he holds, what he wants.

Source: Nakamura et al., section 3.1; framework: Nakamura et al. 2020 (arXiv 2101.00036).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scenario:
    """One row of the table of attack scenarios (section 3.1).

    Attributes
    ----------
    number
        1: the model alone is published. 2: the de-identified notes are published too.
    knowledge, anonymization, resource, target
        K, A, R and T in the paper's symbols.
    """

    number: int
    knowledge: str
    anonymization: str
    resource: str
    target: str


_TARGET = "{ 1(name in D_private) : name in L }"

KART_1 = Scenario(1, knowledge="L", anonymization="id", resource="{}", target=_TARGET)
KART_2 = Scenario(2, knowledge="L", anonymization="id", resource="{ D_public }", target=_TARGET)
SCENARIOS = {1: KART_1, 2: KART_2}
